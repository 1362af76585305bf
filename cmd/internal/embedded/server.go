package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/witness"
)

// ServerName is the name by which clients recognize an embedded server.
const ServerName = "idworker-embedded"

// Config says where the server listens and where its data is.
type Config struct {
	Host    string
	Port    int
	Folder  string
	Witness string          // its folder; [WitnessOf] the data folder if it is empty
	Counter witness.Counter // tells counters from other values; nil if there are none
	Log     *zap.Logger

	// Recover opens a folder that Start would refuse because it is damaged or an older copy, or
	// because its witness is gone. The server does not listen then: it is for whoever raises the
	// counters, see [Server.Lost], and then calls [Server.Renew].
	Recover bool
}

// Server is a running NATS server in this process.
type Server struct {
	cfg  Config
	data *data
	conn *nats.Conn     // the witness's
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
	if cfg.Recover {
		if _, err = data.readPairing(); err == nil {
			err = s.launchPrivately(ctx)
		}
	} else {
		err = s.startChecked(ctx)
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

// startChecked starts the server once the data has been found to be whole.
func (s *Server) startChecked(ctx context.Context) error {
	if err := s.data.pair(s.cfg.Log); err != nil {
		return err
	}
	if err := s.examine(ctx); err != nil {
		return err
	}
	if err := s.data.settle(); err != nil {
		return err
	}
	return s.launch(ctx, func(o *server.Options) { o.Host, o.Port = s.cfg.Host, s.cfg.Port })
}

// launchPrivately starts the server for nobody but this process.
func (s *Server) launchPrivately(ctx context.Context) error {
	return s.launch(ctx, func(o *server.Options) { o.DontListen = true })
}

// examine starts the server privately, and compares its buckets with what the witness saw.
func (s *Server) examine(ctx context.Context) error {
	if err := s.launchPrivately(ctx); err != nil {
		return err
	}
	defer s.shutdown()
	lost, err := s.Lost(ctx)
	if err != nil || lost == nil {
		return err
	}
	return s.data.recoverError(fmt.Errorf("%w: %w", ErrDamaged, lost))
}

// Lost compares the buckets with what the witness saw, and returns nil if all of it is there.
func (s *Server) Lost(ctx context.Context) (lost *witness.ForgotError, err error) {
	conn, js, err := s.Connect()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err = s.data.witness.Compare(ctx, js)
	if errors.As(err, &lost) {
		return lost, nil
	}
	return nil, err
}

// Renew takes what is in the buckets for what the witness saw, from now on, and the witness for
// that of this folder. It is for servers started with [Config.Recover], once the counters have
// been raised; it changes nothing and returns a [witness.ForgotError] if any is lower than the
// witness saw it.
//
// Snowflake IDs: the times that worker IDs had given away since the data's state are not known
// any more. They may be served again once all of them are past, that is longer after the last
// one was served than a lease, the lead over the clock and twice a clock's error take together.
func (s *Server) Renew(ctx context.Context, buckets []string) error {
	conn, js, err := s.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.data.witness.Renew(ctx, js, buckets); err != nil {
		return err
	}
	return s.data.settle()
}

// launch starts the server and returns when it can be used.
func (s *Server) launch(ctx context.Context, where func(*server.Options)) error {
	opts := &server.Options{
		ServerName: ServerName,
		JetStream:  true,
		StoreDir:   s.data.Path,
		SyncAlways: true,
		// The default is a part of what is free at the start, also once there is more.
		JetStreamMaxStore: 1 << 60,
		NoSigs:            true, // signals are this process's own matter
		PingInterval:      5 * time.Second,
		MaxPingsOut:       2, // a stopped worker is dropped after 15 s
	}
	where(opts)
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.nats = srv
	logger := newServerLog(s.cfg.Log)
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
	conn, err := nats.Connect("", nats.InProcessServer(s.nats), nats.Name("idworker witness"))
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

// Witness has the buckets witnessed from now on, and returns when all that is in them
// has been noted. It is to be called once, before anything is counted in them.
func (s *Server) Witness(ctx context.Context, buckets []string) error {
	conn, js, err := s.Connect()
	if err != nil {
		return err
	}
	s.conn = conn
	return s.data.witness.Start(ctx, js, buckets)
}

// folderPoll is how often the folders are looked at.
const folderPoll = time.Second

// Guard returns nil when ctx ends, which must be before Stop, and an error when the server
// has to end: one that wraps [ErrGone] when the folder of the data or of the witness is gone,
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
			if err := cmp.Or(s.data.Check(), s.data.witness.Folder().Check()); err != nil {
				return fmt.Errorf("%w: %w", ErrFolder, err)
			}
			if err := s.checkWrites(); err != nil {
				return err
			}
		}
	}
}

// Folder is where the data is.
func (s *Server) Folder() string { return s.data.Path }

// WitnessFolder is where the witness is.
func (s *Server) WitnessFolder() string { return s.data.witness.Folder().Path }

// URL is where clients reach the server.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Stop ends the server, waits for it, and unlocks the folder.
func (s *Server) Stop() {
	s.data.witness.Stop()
	if s.conn != nil {
		s.conn.Close()
	}
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
