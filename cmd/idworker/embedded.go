package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// embedded is a NATS server in this process, the default where none is given. It
// syncs every write to disk before it acknowledges it: an acknowledged range must
// survive a power cut, or it would be handed out again.
type embedded struct {
	srv    *server.Server
	folder *dataFolder
	log    *zap.Logger
}

// embeddedReady is how long the server may take to start, recovery included.
const embeddedReady = 30 * time.Second

// startEmbedded starts a server that listens at hostPort and keeps its data in a
// folder that no other process has open.
func startEmbedded(hostPort, data string, log *zap.Logger) (*embedded, error) {
	host, port, err := splitListen(hostPort)
	if err != nil {
		return nil, err
	}
	folder, err := openDataFolder(data)
	if err != nil {
		return nil, err
	}
	e := &embedded{folder: folder, log: log}
	if err := e.start(host, port); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func splitListen(hostPort string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, &usageError{fmt.Errorf("--listen %q: want HOST:PORT with a port from 1 to 65535", hostPort)}
	}
	return host, port, nil
}

func (e *embedded) start(host string, port int) error {
	srv, err := server.NewServer(&server.Options{
		ServerName:   "idworker-embedded",
		Host:         host,
		Port:         port,
		JetStream:    true,
		StoreDir:     e.folder.path,
		SyncAlways:   true,
		NoSigs:       true, // signals are this process's own matter
		PingInterval: 5 * time.Second,
		MaxPingsOut:  2, // a stopped worker is dropped after 15 s
	})
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	e.srv = srv
	logger := &serverLog{log: e.log.Named("nats").Sugar(), fatal: make(chan string, 1)}
	srv.SetLogger(logger, false, false)
	go srv.Start() // returns at once; stop waits for the server

	ready := make(chan bool, 1)
	go func() { ready <- srv.ReadyForConnections(embeddedReady) }()
	select {
	case reason := <-logger.fatal:
		return fmt.Errorf("embedded NATS server at %s:%d with data in %s: %s", host, port, e.folder.path, reason)
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("embedded NATS server was not ready after %v", embeddedReady)
		}
	}
	if js := srv.JetStreamConfig(); js == nil || !js.SyncAlways {
		return errors.New("embedded NATS server does not sync every write, although it was told to")
	}
	return e.folder.check(srv)
}

// url is where the server can be reached over the wire.
func (e *embedded) url() string { return e.srv.ClientURL() }

// stop ends the server, waits for it, and lets go of the folder.
func (e *embedded) stop() {
	if e.srv != nil {
		e.folder.note(e.srv, e.log)
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
	}
	e.folder.close()
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
