package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/httpguard"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/snowflake"
)

// Source supplies IDs; it is a worker's Direct. A reply is the body of a NATS
// reply. An error is a [*messages.Error], or that of ctx if it ended first.
type Source interface {
	Segment(ctx context.Context, tag string, count []byte, kept bool, traceparent string) (reply []byte, err error)
	Snowflake(ctx context.Context, count []byte, traceparent string) (reply []byte, err error)
}

// Config configures a server. Address must be set.
type Config struct {
	// Address is HOST:PORT.
	Address string

	// Certificate and Key are PEM files, both or none. With them the server
	// speaks only TLS.
	Certificate, Key string

	// Tokens is a file of tokens and their rights; see [ParseTokens]. Without
	// it, every caller has all rights.
	Tokens string

	// Exposed lets a server without certificate or tokens listen on addresses
	// that other machines can reach.
	Exposed bool

	// Hosts are additional names that a Host header may have without tokens.
	// Localhost, this machine's name and IP addresses are always allowed. With
	// Exposed, all names are.
	Hosts []string

	// Connections bounds the number of connections, 1 to 100,000. The default
	// is DefaultConnections.
	Connections int

	// Wait bounds the time that the source takes. The default is 2 s.
	Wait time.Duration

	// Layout is the layout of snowflake IDs, for decoding them.
	Layout snowflake.Layout

	// Reread triggers an immediate reread of the files, as at SIGHUP. They are
	// also reread every second.
	Reread <-chan os.Signal

	Log *zap.Logger

	// Set by tests; the defaults are the constants of these names.
	requestTimeout, idleTimeout, rereadEvery, drainTime time.Duration
}

// DefaultConnections bounds the number of connections. Each takes about 20 kB.
const DefaultConnections = 4096

// The bounds on a client. Requests are short and have no body.
const (
	// for sending a request, and for reading the answer
	requestTimeout = 5 * time.Second
	idleTimeout    = 2 * time.Minute // until the next request
	maxHeader      = 8 << 10         // bytes; net/http adds 4 KiB
	stopGrace      = 500 * time.Millisecond
	drainTime      = 2 * time.Second // for callers to leave, at a stop

	maxConnections = 100_000
	defaultWait    = 2 * time.Second
	rereadEvery    = time.Second
)

// ErrConfig is wrapped by errors about a configuration that cannot work.
var ErrConfig = problem.New(problem.Invalid, "bad HTTP configuration")

// ExposedError reports that other machines could reach a server without TLS or
// tokens.
type ExposedError struct {
	Address string
	Plain   bool // no TLS: others can read the traffic
	Open    bool // no tokens: anyone gets IDs
}

// Unwrap makes it an ErrConfig.
func (e *ExposedError) Unwrap() error { return ErrConfig }

// Problem is part of [problem.Problem].
func (e *ExposedError) Problem() (problem.Kind, []any) { return problem.Exposed, nil }

// Error names the missing protection.
func (e *ExposedError) Error() string {
	text := "other machines can reach " + e.Address
	if e.Plain {
		text += "; without TLS, others can read the traffic"
	}
	if e.Open {
		text += "; without tokens, anyone gets IDs"
	}
	return text
}

// complete sets defaults, and refuses invalid settings.
func (c Config) complete() (Config, error) {
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.Wait = cmp.Or(c.Wait, defaultWait)
	c.Layout = cmp.Or(c.Layout, snowflake.Default())
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.requestTimeout = cmp.Or(c.requestTimeout, requestTimeout)
	c.idleTimeout = cmp.Or(c.idleTimeout, idleTimeout)
	c.rereadEvery = cmp.Or(c.rereadEvery, rereadEvery)
	c.drainTime = cmp.Or(c.drainTime, drainTime)
	switch {
	case (c.Certificate == "") != (c.Key == ""):
		return c, fmt.Errorf("%w: certificate and key must be given together", ErrConfig)
	case c.Connections < 1 || c.Connections > maxConnections:
		return c, fmt.Errorf("%w: %d connections, allowed is 1 to %d", ErrConfig, c.Connections, maxConnections)
	}
	return c, nil
}

// Server is an HTTP server for callers.
type Server struct {
	cfg         Config
	listener    net.Listener
	http        *http.Server
	handler     handler
	files       secretfile.Set
	certificate *secretfile.Files[*tls.Certificate] // nil without TLS
	stop        context.CancelFunc                  // of the goroutines
	ended       sync.WaitGroup
}

// Open starts a server, which answers 503 until [Server.Answer] is called. It
// fails if it cannot listen, if a file is invalid, or, with an [*ExposedError],
// if other machines could reach an unprotected server.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, files: secretfile.Set{Log: cfg.Log}}
	s.handler = handler{layout: cfg.Layout, hosts: cfg.Hosts, exposed: cfg.Exposed, connections: httpguard.New(cfg.Connections)}
	if err := s.readFiles(); err != nil {
		return nil, err
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Address); err != nil {
		return nil, err
	}
	tcp, isTCP := s.listener.Addr().(*net.TCPAddr)
	plain, open := cfg.Certificate == "", cfg.Tokens == ""
	if (plain || open) && !cfg.Exposed && (!isTCP || !tcp.IP.IsLoopback()) {
		_ = s.listener.Close()
		return nil, &ExposedError{Address: cfg.Address, Plain: plain, Open: open}
	}
	s.serve()
	return s, nil
}

// readFiles reads the files for the first time.
func (s *Server) readFiles() error {
	if s.cfg.Tokens != "" {
		tokens, err := secretfile.Open(&s.files, "tokens", func(contents [][]byte) (Tokens, error) { return ParseTokens(contents[0]) }, s.cfg.Tokens)
		if err != nil {
			return err
		}
		s.handler.tokens = tokens.Last
	}
	if s.cfg.Certificate == "" {
		return nil
	}
	var err error
	s.certificate, err = secretfile.OpenCertificate(&s.files, "certificate", "api", s.cfg.Certificate, s.cfg.Key)
	return err
}

// reread rereads the files until ctx ends.
func (s *Server) reread(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.rereadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.cfg.Reread:
		}
		s.files.Reread()
	}
}

// serve starts the goroutines.
func (s *Server) serve() {
	var protocols http.Protocols
	// A connection of HTTP/2 could have many requests in flight.
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:   &s.handler,
		Protocols: &protocols,
		// It also bounds parked requests, so it includes Wait. Without a
		// ReadHeaderTimeout, net/http sets one deadline less per request.
		ReadTimeout:    s.cfg.Wait + s.cfg.requestTimeout,
		WriteTimeout:   s.cfg.Wait + s.cfg.requestTimeout,
		IdleTimeout:    s.cfg.idleTimeout,
		MaxHeaderBytes: maxHeader,
		ConnState:      s.handler.connections.Note,
		ConnContext:    httpguard.WithConn,
		ErrorLog:       newErrorLog(s.cfg.Log),

		DisableGeneralOptionsHandler: true, // the handler answers all paths
	}
	listener := s.handler.connections.Listen(s.listener)
	if s.cfg.Certificate != "" {
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Last(), nil },
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.cfg.Log.Error("HTTP server for callers failed", zap.Error(err))
		}
	})
	s.ended.Go(func() { s.reread(ctx) })
}

// Address is the address that the server listens on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Answer starts answering requests.
func (s *Server) Answer(source Source) { s.handler.source.Store(&source) }

// Stop accepts no more connections, and returns when the requests in flight are
// answered, or have timed out. The source must answer until then. Clients with
// open connections may send requests for drainTime: each answer ends its
// connection, so that a client leaves between two requests.
func (s *Server) Stop() {
	defer s.ended.Wait()
	defer s.stop()
	// The drain is a part of this time, which bounds the whole stop.
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Wait+s.cfg.requestTimeout)
	defer cancel()
	// Clients that connected without a request get a moment to send it.
	silent := time.AfterFunc(stopGrace, s.handler.connections.CloseStrangers)
	defer silent.Stop()
	s.handler.connections.Drain(s.listener, s.cfg.drainTime)
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // the remaining clients have timed out
	}
}

// errorLog receives net/http's log. Most entries are clients' faults, which any
// client can cause endlessly. Panics and failing accepts are our faults.
type errorLog struct{ log *zap.Logger }

func newErrorLog(to *zap.Logger) *log.Logger {
	return log.New(errorLog{to.Named("api")}, "", 0)
}

// Write is part of io.Writer.
func (e errorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if bytes.Contains(line, []byte("panic serving")) || bytes.Contains(line, []byte("Accept error")) {
		e.log.Error(text)
	} else {
		e.log.Debug(text)
	}
	return len(line), nil
}
