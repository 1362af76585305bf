package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

// The bounds on what a client may take, in time and in size. Requests are short and have no body.
const (
	clientTimeout = 2 * time.Minute // for the first or the next request, with all that belongs to it
	restTimeout   = 5 * time.Second // at the end, for all of a request but the time that the source takes
	maxHeader     = 8 << 10         // bytes; net/http adds 4 KiB
	stopGrace     = 500 * time.Millisecond
)

// Server is an HTTP server for callers.
type Server struct {
	handler  *handler
	listener *listener
	http     *http.Server
	most     time.Duration // that a request may take
	files    []refreshed
	ended    sync.WaitGroup
	stop     context.CancelFunc // of what runs beside the server
}

// Open starts a server, which answers 503 until [Server.Answer] is called. It fails if it cannot listen,
// if a file cannot be used, or, with an [*ExposedError], if others could reach it and nothing keeps them
// off.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{handler: newHandler(cfg), most: cfg.Wait + cfg.restTimeout}
	certificate, err := s.read(cfg)
	if err != nil {
		return nil, err
	}
	plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, err
	}
	if err := exposed(plain.Addr(), cfg); err != nil {
		_ = plain.Close()
		return nil, err
	}
	s.listener = newListener(plain, cfg)
	s.serve(certificate, cfg)
	return s, nil
}

// read reads the files. The certificate is nil without TLS.
func (s *Server) read(cfg Config) (certificate *watched[tls.Certificate], err error) {
	if cfg.Tokens != "" {
		tokens, err := watch("tokens", readTokens, cfg.Tokens)
		if err != nil {
			return nil, err
		}
		s.handler.tokens = tokens
		s.files = append(s.files, tokens)
	}
	if cfg.Certificate == "" {
		return nil, nil
	}
	certificate, err = watch("certificate", readCertificate, cfg.Certificate, cfg.Key)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, certificate)
	return certificate, nil
}

// exposed returns an error if others can reach an address and should not.
func exposed(address net.Addr, cfg Config) error {
	plain, open := cfg.Certificate == "", cfg.Tokens == ""
	tcp, isTCP := address.(*net.TCPAddr)
	if cfg.Exposed || !plain && !open || isTCP && tcp.IP.IsLoopback() {
		return nil
	}
	return &ExposedError{Address: cfg.Address, Plain: plain, Open: open}
}

func (s *Server) serve(certificate *watched[tls.Certificate], cfg Config) {
	log := cfg.Log
	var protocols http.Protocols
	protocols.SetHTTP1(true) // with HTTP/2 a connection could have many requests under way
	s.http = &http.Server{   //nolint:gosec // no ReadHeaderTimeout: the listener bounds the time
		Handler:        s.handler,
		Protocols:      &protocols,
		MaxHeaderBytes: maxHeader,
		ConnState:      noteState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, connOf(c))
		},
		ErrorLog: newErrorLog(log),

		DisableGeneralOptionsHandler: true, // no path is answered elsewhere
	}
	var accept net.Listener = s.listener
	if certificate != nil {
		accept = tls.NewListener(s.listener, tlsConfig(certificate))
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() {
		if err := s.http.Serve(accept); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP for callers has ended", zap.Error(err))
		}
	})
	s.ended.Go(func() { refresh(ctx, s.files, cfg.refreshEvery, log) })
	s.ended.Go(func() { s.listener.watch(ctx) })
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Answer has requests answered from now on.
func (s *Server) Answer(source Source) { s.handler.source.Store(&source) }

// Stop takes no more requests, and returns when those under way are answered, or have had their time.
// The source must answer until then.
func (s *Server) Stop() {
	defer s.ended.Wait()
	defer s.stop()
	// Who has connected and not asked yet has a moment to do so.
	silent := time.AfterFunc(stopGrace, func() { s.listener.closeWaiting(0) })
	defer silent.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.most)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // clients that are still there have had their time
	}
}
