package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/internal/httpguard"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// apiFlags configure the HTTP API for callers.
type apiFlags struct {
	API            string `name:"api" help:"Address for HTTP callers (default: none)." placeholder:"HOST:PORT"`
	APITLSCert     string `name:"api-tls-cert" help:"TLS certificate of --api, PEM; reloaded on change." placeholder:"FILE" type:"path"`
	APITLSKey      string `name:"api-tls-key" help:"Private key of --api-tls-cert, PEM." placeholder:"FILE" type:"path"`
	APITokens      string `name:"api-tokens" help:"Bearer tokens and their tags; reloaded on change." placeholder:"FILE" type:"path"`
	APIInsecure    bool   `name:"api-insecure" help:"Expose --api without TLS, tokens or host checks."`
	APIConnections int    `name:"api-connections" help:"Concurrent connections to --api, 1 to 100000." default:"4096"`
}

// config configures the HTTP API at an address, which may be the demo's. It
// returns nil if address is empty.
func (f apiFlags) config(address string, cfg serverConfig) (*api.Config, error) {
	if address == "" {
		if f.APITLSCert != "" || f.APITLSKey != "" || f.APITokens != "" || f.APIInsecure {
			return nil, problem.Usage(errors.New("--api-tls-cert, --api-tls-key, --api-tokens and --api-insecure need --api"))
		}
		return nil, nil
	}
	if !cfg.worker.Role.Answers() {
		return nil, problem.Usage(errors.New("--api: a loader does not answer requests; use it on workers"))
	}
	if _, _, err := splitAddress("--api", address); err != nil {
		return nil, err
	}
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	return &api.Config{
		Address: address, Certificate: f.APITLSCert, Key: f.APITLSKey, Tokens: f.APITokens, Exposed: f.APIInsecure,
		Hosts: cfg.http.AllowHost, Connections: f.APIConnections, Wait: cfg.worker.Wait, Layout: cfg.worker.Lease.Layout,
		Reread: hangUp, Log: cfg.log,
	}, nil
}

// httpFlags are for commands that run until they are stopped.
type httpFlags struct {
	HTTP      string   `name:"http" help:"Address for metrics, probes and serve's status page (default: none)." placeholder:"HOST:PORT"`
	AllowHost []string `help:"Host names to accept in HTTP requests." placeholder:"NAME"`
}

// serveHTTP starts the HTTP server, if an address is set. state returns the
// answer of /readyz; page may be nil. Stop the server last, so that it reports
// that the process is stopping.
func (f httpFlags) serveHTTP(ctx context.Context, metrics prometheus.Gatherer, state func() httpState, page *health.StatusPage, log *zap.Logger) (stop func(), err error) {
	if f.HTTP == "" {
		return func() {}, nil
	}
	if _, _, err := splitAddress("--http", f.HTTP); err != nil {
		return nil, err
	}
	handler := http.NewServeMux()
	handler.Handle("/", probes(metrics, state))
	if page != nil {
		page.Register(handler)
	}
	_, stop, err = startHTTP(ctx, f.HTTP, f.AllowHost, handler, log)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; choose another HOST:PORT, or stop that program", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	return stop, nil
}

// ofInstallation registers metrics with the installation as a label: one
// Prometheus may scrape several installations.
func ofInstallation(id string, to *prometheus.Registry, metrics ...prometheus.Collector) {
	prometheus.WrapRegistererWith(prometheus.Labels{"installation": id}, to).MustRegister(metrics...)
}

// newRegistry returns a registry with the metrics of any process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "idworker_build_info", Help: "Always 1; the label is the running version.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// unwritten is the metric of an embedded server's trouble.
func unwritten(trouble func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "idworker_nats_unwritten",
		Help: "1 if the embedded NATS server cannot write to its data folder, as on a full disk, else 0.",
	}, func() float64 {
		if trouble() != nil {
			return 1
		}
		return 0
	})
}

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// state returns the answer of /readyz, also before the daemon serves.
func (d *daemon) state() httpState {
	switch {
	case d.stopping.Load():
		return httpState{NotReady: errStopping}
	case !d.serving.Load():
		return httpState{NotReady: errStarting}
	}
	notReady, but := health.Readiness(time.Now(), d.report(), d.cfg.examined.MaxClockSkew)
	return httpState{NotReady: notReady, But: but}
}

// report returns this process's report, with hints and without tags.
func (d *daemon) report() worker.Report {
	r := d.process.Report(0)
	if err := d.process.Ready(); err != nil && r.NotReady != "" {
		r.NotReady = explain(err)
	}
	if err := d.process.Degraded(); err != nil && r.Degraded != "" {
		r.Degraded = explain(err)
	}
	return r
}

// logEvery is the interval at which a change of the problems is logged.
const logEvery = time.Minute

// logProblems logs the problems of this process, once a minute if they changed.
func (d *daemon) logProblems(ctx context.Context) {
	log := health.Log{To: d.cfg.log}
	for pause.For(ctx, logEvery); ctx.Err() == nil; pause.For(ctx, logEvery) {
		log.Write(health.Own(time.Now(), d.report(), d.cfg.examined.MaxClockSkew))
	}
}

// page returns the status page, which works before the daemon serves.
func (d *daemon) page() *health.StatusPage {
	c := d.cfg.examined
	c.Dial = func() (*nats.Conn, jetstream.JetStream, error) {
		if !d.serving.Load() {
			return nil, nil, errStarting
		}
		return d.at.dial(health.Options()...)
	}
	c.Self = func() (worker.Report, bool) {
		if !d.serving.Load() {
			return worker.Report{}, false
		}
		return d.process.Report(worker.MaxReportTags), true
	}
	return health.NewPage(&c)
}

// Bounds on HTTP clients. They are tight: the only clients are probes,
// Prometheus and operators, on a fast network.
const (
	httpReadTimeout  = 5 * time.Second
	httpWriteTimeout = 10 * time.Second
	httpIdleTimeout  = 2 * time.Minute
	httpMaxHeader    = 8 << 10
	httpStopTimeout  = time.Second
	httpMaxScrapes   = 4 // concurrent; scrapes share a collection

	// The oldest makes room for another: no flood keeps a probe out.
	httpConnections = 256
)

// startHTTP serves the handler at HOST:PORT. The Host header of requests must
// be an address, a name of this machine, or in names. stop ends the server and
// waits for it; requests in flight have a second.
func startHTTP(ctx context.Context, address string, names []string, handler http.Handler, log *zap.Logger) (at net.Addr, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	connections := httpguard.New(httpConnections)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !httpguard.Trusted(r.Host, names) {
				http.Error(w, httpguard.Refusal+" with --allow-host", http.StatusForbidden)
				return
			}
			handler.ServeHTTP(w, r)
		}),
		ReadTimeout:    httpReadTimeout,
		WriteTimeout:   httpWriteTimeout,
		IdleTimeout:    httpIdleTimeout,
		MaxHeaderBytes: httpMaxHeader,
		ConnState:      connections.Note,
		ErrorLog:       zap.NewStdLog(log.Named("http")),
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(connections.Listen(listener)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server ended", zap.Error(err))
		}
	})
	return listener.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), httpStopTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // the remaining clients have had their time
		}
		serving.Wait()
	}, nil
}

// httpState is the answer of /readyz.
type httpState struct {
	NotReady error // nil if the process is ready
	But      error // a problem of a ready process, or nil
}

// probes answers /healthz, /readyz and /metrics.
func probes(metrics prometheus.Gatherer, state func() httpState) http.Handler {
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
		MaxRequestsInFlight: httpMaxScrapes,
		CoalesceGather:      true,
	}))
	return mux
}

// splitAddress parses the HOST:PORT of a flag.
func splitAddress(flag, hostPort string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, problem.Usage(fmt.Errorf("%s %q: expected HOST:PORT with a port from 1 to 65535", flag, hostPort))
	}
	return host, port, nil
}
