package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
)

// ServerName is the name by which clients recognize an embedded server.
const ServerName = "idworker-embedded"

// Config says where the server listens and where its data is.
type Config struct {
	Host    string
	Port    int
	Folder  string
	Witness string // its file; [WitnessOf] the data folder if it is empty
	Log     *zap.Logger

	// Prefix is that of the register whose evidence is compared before the server listens, with
	// that of the buckets in Beside.
	Prefix messages.Prefix
	Beside []string

	// Recover opens a folder that Start would refuse because it is damaged or an older copy, or
	// because its witness is gone. The server does not listen then: it is for whoever raises the
	// counters.
	Recover bool
}

// Server is a running NATS server in this process.
type Server struct {
	cfg  Config
	data *data
	nats *server.Server // nil if it does not run

	unwritten atomic.Pointer[error] // see [Server.Trouble]
}

const (
	readyWithin = 30 * time.Second      // for the server to start, recovery included
	readyPoll   = 50 * time.Millisecond // between two looks whether it has failed to
)

// Start starts a server on a folder that nobody else uses, after it has found the data
// to be whole.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Witness == "" {
		cfg.Witness = WitnessOf(cfg.Folder)
	}
	address := net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))
	if !cfg.Recover && cfg.Port > 0 { // -1 is any port
		if err := checkPort(ctx, address); err != nil {
			return nil, failed(address, err)
		}
	}
	data, err := openData(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, data: data}
	if !cfg.Recover {
		err = s.examine(ctx)
	}
	if err == nil {
		err = s.launch(ctx, !cfg.Recover)
	}
	if err != nil {
		s.Stop()
		return nil, failed(address, err)
	}
	return s, nil
}

func failed(address string, err error) error {
	return fmt.Errorf("embedded NATS server at %s: %w", address, err)
}

// examine makes sure of a witness, starts the server for this process alone, and compares its
// buckets with what the witness saw.
func (s *Server) examine(ctx context.Context) error {
	if err := s.data.checkWitness(s.cfg.Log); err != nil {
		return err
	}
	if err := s.launch(ctx, false); err != nil {
		return err
	}
	defer s.shutdown()
	conn, js, err := s.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err = s.data.witness.Compare(ctx, js, s.cfg.Prefix, s.cfg.Beside...)
	if err == nil {
		var lacks bool
		if lacks, err = s.data.witness.Lacks(ctx, js, s.cfg.Prefix); lacks {
			return s.data.recoverError(fmt.Errorf("%w: %s has nothing about %s", ErrNoWitness, s.data.witness.Path(), register.BucketName(s.cfg.Prefix)))
		}
	}
	switch {
	case errors.Is(err, register.ErrForeignWitness):
		return s.data.recoverError(fmt.Errorf("%w: %w", ErrNoWitness, err))
	case errors.Is(err, store.ErrRegressed):
		return s.data.recoverError(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return err
}

// launch starts the server, for this process alone or listening, and returns when it can be used.
func (s *Server) launch(ctx context.Context, listen bool) error {
	opts := &server.Options{
		ServerName: ServerName,
		JetStream:  true,
		StoreDir:   s.data.path,
		DontListen: !listen,
		Host:       s.cfg.Host,
		Port:       s.cfg.Port,
		SyncAlways: true,
		// The default is a part of what is free at the start, also once there is more.
		JetStreamMaxStore: 1 << 60,
		NoSigs:            true, // signals are this process's own matter
		PingInterval:      5 * time.Second,
		MaxPingsOut:       2, // a stopped worker is dropped after 15 s
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.nats = srv
	logger := &serverLog{log: s.cfg.Log.Named("nats").Sugar(), fatal: make(chan string, 1)}
	srv.SetLogger(logger, false, false)
	go srv.Start() // returns soon; shutdown waits for the server
	if err := waitReady(ctx, srv, logger.fatal); err != nil {
		return err
	}
	if js := srv.JetStreamConfig(); js == nil || !js.SyncAlways {
		return errors.New("does not sync every write, although it was told to")
	}
	return nil
}

// waitReady returns when the server accepts connections, or cannot start.
func waitReady(ctx context.Context, srv *server.Server, fatal <-chan string) error {
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		ready := srv.ReadyForConnections(readyPoll)
		select {
		case reason := <-fatal:
			return errors.New(reason)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if ready {
			return nil
		}
	}
	return fmt.Errorf("not ready after %v", readyWithin)
}

// Connect connects this process to its own server, past the network.
func (s *Server) Connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect("", nats.InProcessServer(s.nats), nats.Name("idworker"), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// folderPoll is how often the folders are looked at.
const folderPoll = time.Second

// Guard returns nil when ctx ends, which must be before Stop, and an error when the server
// has to end: one that wraps [ErrGone] when the folder of the data is gone,
// since a server goes on without its folder, and forgets all that it counted when it ends; and
// one that wraps [ErrUnwritten] when a write has failed and there is room again.
func (s *Server) Guard(ctx context.Context) error {
	ticker := time.NewTicker(folderPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := s.data.Check(); err != nil {
				return fmt.Errorf("%w: %w", ErrFolder, err)
			}
			if err := s.checkWrites(); err != nil {
				return err
			}
		}
	}
}

// Folder is where the data is.
func (s *Server) Folder() string { return s.data.path }

// Witness is the witness of the data.
func (s *Server) Witness() *register.Witness { return s.data.witness }

// URL is where clients reach the server.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Stop ends the server, waits for it, and unlocks the folder.
func (s *Server) Stop() {
	s.shutdown()
	s.data.Close()
}

func (s *Server) shutdown() {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.nats = nil
	}
}

// PortError says that something listens where the server was to listen.
type PortError struct {
	Address string // HOST:PORT

	// NATS says that it is a NATS server, and Server how that calls itself: [ServerName] if it is
	// an embedded one.
	NATS   bool
	Server string

	Err error
}

func (e *PortError) Error() string { return "the port is taken: " + e.Err.Error() }

// Unwrap returns why the server could not listen.
func (e *PortError) Unwrap() error { return e.Err }

// Problem is part of [problem.Problem].
func (e *PortError) Problem() (problem.Kind, []any) {
	switch {
	case e.NATS && e.Server == ServerName:
		return problem.PortOfIdworker, []any{e.Address}
	case e.NATS:
		return problem.PortOfNATS, []any{e.Server, e.Address}
	}
	return problem.PortOfOther, nil
}

// checkPort finds out whether the server can listen there, before anything is made in its folder. If not,
// the error is a [PortError] or what else keeps it from listening.
func checkPort(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return lookAtPort(ctx, address, err)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// portPatience is how long whoever listens may take to say what it is. A NATS server does so at once.
const portPatience = time.Second

// lookAtPort finds out who listens.
func lookAtPort(ctx context.Context, address string, taken error) *PortError {
	e := &PortError{Address: address, Err: taken}
	conn, err := (&net.Dialer{Timeout: portPatience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return e
	}
	defer func() { _ = conn.Close() }() // nothing was written to it
	_ = conn.SetReadDeadline(time.Now().Add(portPatience))
	line, _ := bufio.NewReaderSize(conn, 16<<10).ReadSlice('\n') // without it, this is nobody that is known
	said, isNATS := strings.CutPrefix(string(line), "INFO ")
	var info struct {
		Name string `json:"server_name"`
	}
	e.NATS = isNATS && json.Unmarshal([]byte(said), &info) == nil
	e.Server = info.Name
	return e
}

// serverLog passes on what the server logs; its notices are details here. The first
// fatal error goes to fatal instead: the server's own logger would end the process.
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
