package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// embedded is a NATS server in this process, the default where none is given. It
// syncs every write to disk before it acknowledges it: an acknowledged range must
// survive a power cut, or it would be handed out again.
type embedded struct {
	folder *dataFolder
	log    *zap.Logger
	srv    *server.Server

	stopWitness func() // nil if there is none
	witnesses   sync.WaitGroup
}

// embeddedReady is how long the server may take to start, recovery included.
const embeddedReady = 30 * time.Second

// startEmbedded starts a server that listens at hostPort and keeps its data in a
// folder that no other process has open. It first starts without listening, to find
// out whether the data is whole: workers elsewhere would not wait for that.
func startEmbedded(ctx context.Context, hostPort, data string, log *zap.Logger) (*embedded, error) {
	host, port, err := splitAddress("--listen", hostPort)
	if err != nil {
		return nil, err
	}
	folder, err := openDataFolder(data)
	if err != nil {
		return nil, err
	}
	e := &embedded{folder: folder, log: log}
	err = e.examine(ctx)
	if err == nil {
		err = e.start(func(o *server.Options) { o.Host, o.Port = host, port })
	}
	if err != nil {
		e.stop()
		return nil, fmt.Errorf("embedded NATS server at %s: %w", hostPort, err)
	}
	return e, nil
}

// splitAddress reads the value of a flag that says where to listen.
func splitAddress(flag, hostPort string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, &usageError{fmt.Errorf("%s %q: want HOST:PORT with a port from 1 to 65535", flag, hostPort)}
	}
	return host, port, nil
}

// embeddedName is how the embedded server is called by those who ask it.
const embeddedName = "idworker-embedded"

// start starts the server and returns when it can be used.
func (e *embedded) start(where func(*server.Options)) error {
	opts := &server.Options{
		ServerName:   embeddedName,
		JetStream:    true,
		StoreDir:     e.folder.path,
		SyncAlways:   true,
		NoSigs:       true, // signals are this process's own matter
		PingInterval: 5 * time.Second,
		MaxPingsOut:  2, // a stopped worker is dropped after 15 s
	}
	where(opts)
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	e.srv = srv
	logger := &serverLog{log: e.log.Named("nats").Sugar(), fatal: make(chan string, 1)}
	srv.SetLogger(logger, false, false)
	go srv.Start() // returns soon; stop waits for the server

	ready := make(chan bool, 1)
	go func() { ready <- srv.ReadyForConnections(embeddedReady) }()
	select {
	case reason := <-logger.fatal:
		return errors.New(reason)
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("not ready after %v", embeddedReady)
		}
	}
	if js := srv.JetStreamConfig(); js == nil || !js.SyncAlways {
		return errors.New("does not sync every write, although it was told to")
	}
	return nil
}

// examine starts the server for nobody but this process, and compares its buckets with
// their witnesses.
func (e *embedded) examine(ctx context.Context) error {
	if err := e.start(func(o *server.Options) { o.DontListen = true }); err != nil {
		return err
	}
	defer e.shutdown()
	conn, js, err := e.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, embeddedReady)
	defer cancel()
	return e.folder.hearWitnesses(ctx, js)
}

// witness begins to write down what happens in the buckets, and returns when all that is
// in them is written down.
func (e *embedded) witness(ctx context.Context, buckets []string) error {
	conn, js, err := e.connect()
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	e.stopWitness = func() {
		cancel()
		e.witnesses.Wait()
		conn.Close()
	}
	ready := make(chan struct{}, len(buckets))
	for _, bucket := range buckets {
		first := sync.OnceFunc(func() { ready <- struct{}{} })
		e.witnesses.Go(func() { e.folder.watch(background, js, bucket, first, e.log) })
	}
	for range buckets {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// connect connects this process to its own server, past the network.
func (e *embedded) connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect("", nats.InProcessServer(e.srv), nats.Name("idworker witness"))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	return conn, js, err
}

// url is where the server can be reached over the wire.
func (e *embedded) url() string { return e.srv.ClientURL() }

// stop ends the server, waits for it, and lets go of the folder.
func (e *embedded) stop() {
	if e.stopWitness != nil {
		e.stopWitness()
	}
	e.shutdown()
	e.folder.close()
}

func (e *embedded) shutdown() {
	if e.srv != nil {
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
		e.srv = nil
	}
}

// serverLog passes the server's log on: its notices are details here. The first
// fatal error goes to fatal; the server's own logger would end the process.
type serverLog struct {
	log   *zap.SugaredLogger
	fatal chan string
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warnf(format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Errorf(format, v...) }

func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default: // the first one is the cause
	}
}
