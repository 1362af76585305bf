package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// httpFlags are for commands that run until they are stopped, and say how they are.
type httpFlags struct {
	HTTP string `name:"http" help:"Where to serve /healthz, /readyz and /metrics, 127.0.0.1:9090 say. Nowhere by default." placeholder:"HOST:PORT"`
}

// The bounds of what HTTP clients may take. They are short, because nobody but probes
// and Prometheus has business here, on a fast network.
const (
	httpReadTimeout  = 5 * time.Second
	httpWriteTimeout = 10 * time.Second
	httpIdleTimeout  = 2 * time.Minute
	httpMaxHeader    = 8 << 10
	httpStopTimeout  = time.Second
	maxScrapes       = 4 // at the same time; they share what is gathered
)

// serveHTTP starts the HTTP server, if there is to be one. ready says why the process
// is not ready, if so. The server is to be stopped last, so that it can still say that
// the process is stopping.
func (f httpFlags) serveHTTP(ctx context.Context, metrics prometheus.Gatherer, ready func() error, log *zap.Logger) (stop func(), err error) {
	if f.HTTP == "" {
		return func() {}, nil
	}
	if _, _, err := splitAddress("--http", f.HTTP); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.HTTP)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	server := &http.Server{
		Handler:           httpHandler(metrics, ready),
		ReadHeaderTimeout: httpReadTimeout,
		ReadTimeout:       httpReadTimeout,
		WriteTimeout:      httpWriteTimeout,
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    httpMaxHeader,
		ErrorLog:          zap.NewStdLog(log.Named("http")),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server ended", zap.Error(err))
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), httpStopTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // clients that are still there have had their time
		}
		<-ended
	}, nil
}

// httpHandler answers what there is to ask.
func httpHandler(metrics prometheus.Gatherer, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		CoalesceGather:      true,
	}))
	return mux
}

// newRegistry is for the metrics of a process, and has those that every one has.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "idworker_build_info", Help: "Always 1; the label says which version runs.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
