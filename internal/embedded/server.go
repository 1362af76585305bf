package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// ServerName is the name by which clients recognize an embedded server.
const ServerName = "idworker-embedded"

// Config says where the server listens and where its data is.
type Config struct {
	Host   string
	Port   int
	Folder string
	Log    *zap.Logger
}

// Server is a running NATS server in this process.
type Server struct {
	cfg     Config
	folder  *folder
	witness *witness
	nats    *server.Server // nil if it does not run
}

const (
	readyWithin = 30 * time.Second      // for the server to start, recovery included
	readyPoll   = 50 * time.Millisecond // between two looks whether it has failed to
)

// Start starts a server on a folder that nobody else uses, after it has found the data
// to be whole.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	folder, err := openFolder(cfg.Folder)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, folder: folder, witness: newWitness(folder.path, cfg.Log)}
	err = s.examine(ctx)
	if err == nil {
		err = s.launch(ctx, func(o *server.Options) { o.Host, o.Port = cfg.Host, cfg.Port })
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("embedded NATS server at %s: %w", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)), err)
	}
	return s, nil
}

// examine starts the server for nobody but this process, and compares its buckets with
// what the witness saw.
func (s *Server) examine(ctx context.Context) error {
	if err := s.launch(ctx, func(o *server.Options) { o.DontListen = true }); err != nil {
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
	return s.witness.compare(ctx, js)
}

// launch starts the server and returns when it can be used.
func (s *Server) launch(ctx context.Context, where func(*server.Options)) error {
	opts := &server.Options{
		ServerName:   ServerName,
		JetStream:    true,
		StoreDir:     s.folder.path,
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
	return s.witness.start(ctx, conn, js, buckets)
}

// URL is where clients reach the server.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Stop ends the server, waits for it, and unlocks the folder.
func (s *Server) Stop() {
	s.witness.stop()
	s.shutdown()
	s.folder.close()
}

func (s *Server) shutdown() {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.nats = nil
	}
}
