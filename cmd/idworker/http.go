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

	"github.com/idworker/idworker/cmd/internal/status"
	"github.com/idworker/idworker/internal/hostheader"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// apiFlags are for callers that speak HTTP.
type apiFlags struct {
	API            string `name:"api" help:"Where to answer callers over HTTP, for example 127.0.0.1:8080. Nowhere by default." placeholder:"HOST:PORT"`
	APITLSCert     string `name:"api-tls-cert" help:"Certificate for --api, in PEM. It is read again when it changes." placeholder:"FILE" type:"path"`
	APITLSKey      string `name:"api-tls-key" help:"Key of that certificate." placeholder:"FILE" type:"path"`
	APITokens      string `name:"api-tokens" help:"Which bearer token may ask for what: a line for each, with the token, tags or patterns like order.*, and @snowflake. It is read again when it changes." placeholder:"FILE" type:"path"`
	APIInsecure    bool   `name:"api-insecure" help:"Let other machines reach --api even without a certificate, or without tokens, and by any name."`
	APIConnections int    `name:"api-connections" help:"Connections to --api at a time, 1 to 100000." default:"4096"`
}

// config configures the server for callers at an address, which may be the
// demo's. It is nil without one.
func (f apiFlags) config(address string, cfg serverConfig) (*api.Config, error) {
	if address == "" {
		if f.APITLSCert != "" || f.APITLSKey != "" || f.APITokens != "" || f.APIInsecure {
			return nil, problem.Usage(errors.New("--api-tls-cert, --api-tls-key, --api-tokens and --api-insecure are for --api, which says where to listen"))
		}
		return nil, nil
	}
	if !cfg.worker.Role.Answers() {
		return nil, problem.Usage(errors.New("--api: a loader answers no requests; give it to the workers"))
	}
	if _, _, err := splitAddress("--api", address); err != nil {
		return nil, err
	}
	hangUp := make(chan os.Signal, 1)
	if f.APITokens != "" || f.APITLSCert != "" {
		signal.Notify(hangUp, syscall.SIGHUP) // which ends other processes
	}
	return &api.Config{
		Address: address, Certificate: f.APITLSCert, Key: f.APITLSKey, Tokens: f.APITokens, Exposed: f.APIInsecure,
		Hosts: cfg.http.AllowHost, Connections: f.APIConnections, Wait: cfg.worker.Wait, Layout: cfg.worker.Lease.Layout,
		Reread: hangUp, Log: cfg.log,
	}, nil
}

// httpFlags are for commands that run until they are stopped, and report how
// they are.
type httpFlags struct {
	HTTP      string   `name:"http" help:"Where to serve /healthz, /readyz and /metrics, and of idworker serve the status page at /, for example 127.0.0.1:9090. Nowhere by default." placeholder:"HOST:PORT"`
	AllowHost []string `help:"Names that the Host header may have at --http, and at --api without tokens, besides localhost, this machine's name and IP addresses." placeholder:"NAME"`
}

// serveHTTP starts the HTTP server, if there is to be one. state is what
// /readyz tells, page what the status page shows, nil if there is none. The
// server is to be stopped last, so that it can still report that the process is
// stopping.
func (f httpFlags) serveHTTP(ctx context.Context, metrics prometheus.Gatherer, state func() httpState, page *status.Page, log *zap.Logger) (stop func(), err error) {
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
		err = fmt.Errorf("%w; choose another HOST:PORT, or stop what listens there", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	return stop, nil
}

// ofInstallation registers metrics that say which installation they are of: one
// Prometheus may scrape several.
func ofInstallation(id string, to *prometheus.Registry, metrics ...prometheus.Collector) {
	prometheus.WrapRegistererWith(prometheus.Labels{"installation": id}, to).MustRegister(metrics...)
}

// newRegistry is for the metrics of a process, and has those that every process
// has.
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

// unwritten is a metric of the trouble of an embedded server.
func unwritten(trouble func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "idworker_nats_unwritten",
		Help: "Whether the embedded NATS server could not write to its data folder, as on a full disk. 1 or 0; 0 without one.",
	}, func() float64 {
		if trouble() != nil {
			return 1
		}
		return 0
	})
}

var errStarting = errors.New("starting")

// state is what /readyz shows of a daemon, also before it serves.
func (d *daemon) state() httpState {
	if !d.serving.Load() {
		return httpState{NotReady: errStarting}
	}
	but := d.process.Degraded()
	if o := d.process.Report(0).Outages; but == nil && o != nil && o.Now {
		but = fmt.Errorf("its store fails: %s", o.Error)
	}
	return httpState{NotReady: hinted(d.process.Ready()), But: hinted(but)}
}

// hinted adds to an error what can be done about it.
func hinted(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(explain(err))
}

// page is the status page of a daemon, which is there before it serves.
func (d *daemon) page() *status.Page {
	at := d.cfg.installation
	return status.NewPage(&status.Collector{
		Prefix: at.Prefix, Domain: at.JSDomain != "" || at.Context != "",
		Dial: func() (*nats.Conn, jetstream.JetStream, error) {
			if !d.serving.Load() {
				return nil, nil, errStarting
			}
			return d.at.dial(status.Options()...)
		},
		Self: func() (worker.Report, bool) {
			if !d.serving.Load() {
				return worker.Report{}, false
			}
			return d.process.Report(worker.MaxReportTags), true
		},
		Doctor: d.cfg.examined,
	})
}

// The bounds on HTTP clients. They are tight: only probes, Prometheus and
// operators have business here, on a fast network.
const (
	httpReadTimeout  = 5 * time.Second
	httpWriteTimeout = 10 * time.Second
	httpIdleTimeout  = 2 * time.Minute
	httpMaxHeader    = 8 << 10
	httpStopTimeout  = time.Second
	httpMaxScrapes   = 4 // at the same time; they share what is gathered
)

// startHTTP serves the handler at HOST:PORT, to requests whose Host header has
// an address, a name of this machine, or one of names. stop ends the server and
// waits for it; requests under way have a second to end.
func startHTTP(ctx context.Context, address string, names []string, handler http.Handler, log *zap.Logger) (at net.Addr, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !hostheader.Trusted(r.Host, names) {
				http.Error(w, hostheader.Refusal+" with --allow-host", http.StatusForbidden)
				return
			}
			handler.ServeHTTP(w, r)
		}),
		ReadTimeout:    httpReadTimeout,
		WriteTimeout:   httpWriteTimeout,
		IdleTimeout:    httpIdleTimeout,
		MaxHeaderBytes: httpMaxHeader,
		ErrorLog:       zap.NewStdLog(log.Named("http")),
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server ended", zap.Error(err))
		}
	})
	return listener.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), httpStopTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // clients that are still there have had their time
		}
		serving.Wait()
	}, nil
}

// httpState is what /readyz tells.
type httpState struct {
	NotReady error // why the process is not ready, or nil
	But      error // what is wrong although it is, or nil
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

// splitAddress parses the value of a flag that says where to listen.
func splitAddress(flag, hostPort string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, problem.Usage(fmt.Errorf("%s %q: want HOST:PORT with a port from 1 to 65535", flag, hostPort))
	}
	return host, port, nil
}
