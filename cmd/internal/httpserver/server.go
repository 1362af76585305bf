// Package httpserver serves what a process tells about itself over HTTP: whether it
// lives, whether it is ready, and its metrics.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/hostheader"
)

// The bounds on HTTP clients. They are tight, because only probes and Prometheus have
// business here, on a fast network.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 8 << 10
	stopTimeout  = time.Second
	maxScrapes   = 4 // at the same time; they share what is gathered
)

// Server is a running HTTP server.
type Server struct {
	http     *http.Server
	listener net.Listener
	ended    chan struct{}
}

// Start serves the handler at HOST:PORT, to requests whose Host header has an address, a name of
// this machine, or one of names.
func Start(ctx context.Context, address string, names []string, handler http.Handler, log *zap.Logger) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		http: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !hostheader.Trusted(r.Host, names) {
					http.Error(w, hostheader.Refusal+" with --allow-host", http.StatusForbidden)
					return
				}
				handler.ServeHTTP(w, r)
			}),
			ReadHeaderTimeout: readTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          zap.NewStdLog(log.Named("http")),
		},
		listener: listener,
		ended:    make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server ended", zap.Error(err))
		}
	}()
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop ends the server and waits for it. Requests under way have a second to end.
func (s *Server) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // clients that are still there have had their time
	}
	<-s.ended
}

// State is what /readyz tells.
type State struct {
	NotReady error // why the process is not ready, or nil
	But      error // what is wrong although it is, or nil
}

// Handler answers /healthz, /readyz and /metrics.
func Handler(metrics prometheus.Gatherer, state func() State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch s := state(); {
		case s.NotReady != nil:
			http.Error(w, "not ready: "+s.NotReady.Error(), http.StatusServiceUnavailable)
		case s.But != nil:
			fmt.Fprintln(w, "ready, but", s.But)
		default:
			fmt.Fprintln(w, "ready")
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		CoalesceGather:      true,
	}))
	return mux
}
