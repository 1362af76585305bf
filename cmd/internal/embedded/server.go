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

// ServerName is the name that identifies embedded servers to clients.
const ServerName = "idworker-embedded"

// Config configures a server.
type Config struct {
	Host    string
	Port    int
	Folder  string
	Witness string // default: [WitnessOf] the folder
	Log     *zap.Logger

	// Start compares the register of this prefix, and the buckets in Beside,
	// with the witness before the server listens.
	Prefix messages.Prefix
	Beside []string

	// Admit checks that the data is of the right installation, before the server
	// listens and before anything is created in it.
	Admit func(context.Context, jetstream.JetStream) error

	// Recover opens a folder that Start would refuse because it has lost data
	// or its witness. The server does not listen: only this process uses it, to
	// raise the counters. Create creates a missing folder then.
	Recover, Create bool
}

// NATS is a running NATS server in this process.
type NATS struct {
	cfg  Config
	data *data
	nats *server.Server // nil if stopped

	unwritten atomic.Pointer[error] // see [Server.Trouble]
}

const (
	readyWithin = 30 * time.Second      // of a start, recovery included
	readyPoll   = 50 * time.Millisecond // between two checks of a start
)

// Start starts a server on a folder that no other process uses, after it has
// compared the data with the witness.
func Start(ctx context.Context, cfg Config) (*NATS, error) {
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
	s := &NATS{cfg: cfg, data: data}
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

// examine checks the witness, starts the server for this process alone, and
// compares its buckets with the witness.
func (s *NATS) examine(ctx context.Context) error {
	fresh, err := s.data.checkWitness()
	if err != nil {
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
	if !fresh {
		err = s.Compare(ctx, js)
	}
	if err == nil && s.cfg.Admit != nil {
		err = s.cfg.Admit(ctx, js)
	}
	if err != nil || !fresh {
		return err
	}
	s.cfg.Log.Warn("new installation, no IDs issued before", zap.String("data", s.data.path), zap.String("witness", s.data.witness.Path()))
	return s.data.witness.Create()
}

// Compare returns a [*RecoverError] if the data must not be served, because the
// witness does not cover it or has seen more.
func (s *NATS) Compare(ctx context.Context, js jetstream.JetStream) error {
	err := s.data.witness.Compare(ctx, js, s.cfg.Prefix, s.cfg.Beside...)
	for _, bucket := range s.cfg.Beside { // also after a decision: only Accept ends the wait for it
		if err == nil {
			err = s.data.witness.CompareBucket(ctx, js, bucket)
		}
	}
	if err == nil {
		var lacks bool
		if lacks, err = s.data.witness.Lacks(ctx, js, s.cfg.Prefix); lacks {
			return s.data.recoverError(fmt.Errorf("%w: %s does not cover %s", ErrNoWitness, s.data.witness.Path(), register.BucketName(s.cfg.Prefix)))
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

// launch starts the server, listening or for this process alone, and returns
// when it is ready.
func (s *NATS) launch(ctx context.Context, listen bool) error {
	opts := &server.Options{
		ServerName: ServerName,
		JetStream:  true,
		StoreDir:   s.data.path,
		DontListen: !listen,
		Host:       s.cfg.Host,
		Port:       s.cfg.Port,
		SyncAlways: true,
		// The default is a share of the space at the start, even if there is
		// more later.
		JetStreamMaxStore: 1 << 60,
		NoSigs:            true, // this process handles signals
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
		if cause := s.data.tryWrite(); cause != nil { // the server hides it
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return err
	}
	if js := srv.JetStreamConfig(); js == nil || !js.SyncAlways {
		return errors.New("ignores the option to sync every write")
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

// Connect connects this process to its server, without the network.
func (s *NATS) Connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect("", nats.InProcessServer(s.nats), nats.Name("idworker"), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { // by default to stderr
			s.cfg.Log.Error("NATS error", zap.String("connection", "embedded"), zap.Error(err))
		}))
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

// folderPoll is the interval of folder checks.
const folderPoll = time.Second

// Guard returns nil when ctx ends, which must be before Stop, and an error when
// the server must end: an [ErrGone] if the folder is gone, because the server
// would continue without it and lose all counters at its end; an [ErrUnwritten]
// after a failed write, once there is space again.
func (s *NATS) Guard(ctx context.Context) error {
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

// Folder returns the path of the data.
func (s *NATS) Folder() string { return s.data.path }

// Witness returns the witness of the data.
func (s *NATS) Witness() *register.Witness { return s.data.witness }

// URL returns the server's URL for clients.
func (s *NATS) URL() string { return s.nats.ClientURL() }

// Interest returns the number of subscriptions to a subject. All are of direct
// clients: the server has no links to others. Without an answer it is 0.
//
// The server's Account.Interest counts too few if one of them has a wildcard.
func (s *NATS) Interest(subject string) int {
	found, err := s.nats.Subsz(&server.SubszOptions{Subscriptions: true, Test: subject})
	if err != nil {
		return 0
	}
	return found.Total
}

// Stop ends the server, waits for it, and unlocks the folder.
func (s *NATS) Stop() {
	s.shutdown()
	s.data.Close()
}

func (s *NATS) shutdown() {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.nats = nil
	}
}

// PortError means that another program listens at the server's address.
type PortError struct {
	Address string // HOST:PORT

	// NATS reports whether that is a NATS server, and Server is its name:
	// [ServerName] of an embedded server.
	NATS   bool
	Server string

	Err error
}

func (e *PortError) Error() string { return "port is taken: " + e.Err.Error() }

// Unwrap returns the error of listening.
func (e *PortError) Unwrap() error { return e.Err }

// Problem implements [problem.Problem].
func (e *PortError) Problem() (problem.Kind, []any) {
	switch {
	case e.NATS && e.Server == ServerName:
		return problem.PortOfIdworker, []any{e.Address}
	case e.NATS:
		return problem.PortOfNATS, []any{e.Server, e.Address}
	}
	return problem.PortOfOther, nil
}

// checkPort checks that the server can listen there, before anything is created
// in its folder. If not, it returns a [PortError] or another error of
// listening.
func checkPort(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return identifyListener(ctx, address, err)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// greetTimeout bounds the wait for a listener's greeting. A NATS server sends
// it at once.
const greetTimeout = time.Second

// identifyListener identifies the listener.
func identifyListener(ctx context.Context, address string, taken error) *PortError {
	e := &PortError{Address: address, Err: taken}
	conn, err := (&net.Dialer{Timeout: greetTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return e
	}
	defer func() { _ = conn.Close() }() // nothing was written to it
	_ = conn.SetReadDeadline(time.Now().Add(greetTimeout))
	// Without a line, the listener is unknown.
	line, _ := bufio.NewReaderSize(conn, 16<<10).ReadSlice('\n')
	said, isNATS := strings.CutPrefix(string(line), "INFO ")
	var info struct {
		Name string `json:"server_name"`
	}
	e.NATS = isNATS && json.Unmarshal([]byte(said), &info) == nil
	e.Server = info.Name
	return e
}

// serverLog forwards the server's log; notices become debug messages. The first
// fatal error goes to fatal, because the server's own logger would end the
// process.
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
