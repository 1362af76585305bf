package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/httpserver"
	"github.com/idworker/idworker/cmd/internal/statuspage"
)

// httpFlags are for commands that run until they are stopped, and report how they are.
type httpFlags struct {
	HTTP      string   `name:"http" help:"Where to serve /healthz, /readyz and /metrics, and of idworker serve the status page at /, for example 127.0.0.1:9090. Nowhere by default." placeholder:"HOST:PORT"`
	AllowHost []string `help:"Names that the Host header may have at --http, and at --api without tokens, besides localhost, this machine's name and IP addresses." placeholder:"NAME"`
}

// serveHTTP starts the HTTP server, if there is to be one. state is what /readyz tells, page what the status page shows,
// nil if there is none. The server is to be stopped last, so that it can still report that
// the process is stopping.
func (f httpFlags) serveHTTP(ctx context.Context, metrics prometheus.Gatherer, state func() httpserver.State, page statuspage.Source, log *zap.Logger) (stop func(), err error) {
	if f.HTTP == "" {
		return func() {}, nil
	}
	if _, _, err := httpserver.SplitAddress("--http", f.HTTP); err != nil {
		return nil, err
	}
	handler := http.NewServeMux()
	handler.Handle("/", httpserver.Handler(metrics, state))
	if page != nil {
		statuspage.Register(handler, page)
	}
	server, err := httpserver.Start(ctx, f.HTTP, f.AllowHost, handler, log)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; choose another HOST:PORT, or stop what listens there", err)
		}
		return nil, fmt.Errorf("--http: %w", err)
	}
	return server.Stop, nil
}

// ofInstallation registers metrics that say which installation they are of: one Prometheus may scrape several.
func ofInstallation(id string, to *prometheus.Registry, metrics ...prometheus.Collector) {
	prometheus.WrapRegistererWith(prometheus.Labels{"installation": id}, to).MustRegister(metrics...)
}

// newRegistry is for the metrics of a process, and has those that every process has.
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
