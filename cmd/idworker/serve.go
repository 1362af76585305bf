package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// serveCmd runs a process of any role, and an embedded NATS server unless the
// user has a server.
type serveCmd struct {
	natsFlags  `embed:"" group:"nats"`
	storeFlags `embed:"" group:"store"`

	Migrate bool `help:"Create the table if missing."`

	Listen string `help:"Address of the embedded NATS server." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Data   string `help:"Data folder of the embedded NATS server." default:"idworker-data" type:"path"`

	Witness string `help:"Witness file (default: FOLDER.witness; with --server, one in $STATE_DIRECTORY or $XDG_STATE_HOME)." placeholder:"FILE" type:"path"`

	birthFlag `embed:""`

	Role     worker.Role `help:"Role: worker, loader, snowflake or all." default:"all" enum:"all,worker,loader,snowflake"`
	Replicas int         `help:"Replicas of new streams and buckets, 1 to 5." default:"1"`

	Wait     time.Duration `help:"Longest wait for a segment." default:"2s"`
	MaxBatch int64         `help:"Largest count of a request." default:"10000"`
	MaxStep  int64         `help:"Largest step (IDs per segment)." default:"1000000"`

	snowflakeFlags `embed:""`

	AllowUnsynced bool `help:"Accept NATS servers that do not sync every write."`
	apiFlags      `embed:""`

	httpFlags   `embed:""`
	MetricsTags int `help:"Busiest tags with their own metrics, 0 to 100000." default:"1000"`

	Demo     bool `help:"Create a tag, print IDs, and show examples."`
	logFlags `embed:""`
}

// Run serves until ctx ends.
func (s *serveCmd) Run(ctx context.Context, command *kong.Context, out output, errs *journal) error {
	log := s.open(errs)
	files := &secretfile.Set{Log: log}
	return s.end(log, serveUntilStopped(ctx, files, func(ctx context.Context) error {
		cfg, err := s.config(ctx, command, files)
		if err != nil {
			return err
		}
		cfg.errs = errs
		d := newDaemon(cfg)
		defer d.close()
		if err := d.start(ctx); err != nil {
			return err
		}
		return d.run(ctx, out)
	}))
}

// serverConfig configures a [daemon].
type serverConfig struct {
	nats     natsFlags // the user's server, or none
	files    *secretfile.Set
	embedded *embedded.Config // nil with the user's server
	// Those of a loader at the user's server: its own file, empty for one on the
	// shelf.
	witness string
	shelf   witness.Shelf
	source  backend.Backend
	migrate bool
	// Checks that JetStream has the installation, before anything is created.
	admit  func(context.Context, jetstream.JetStream) error
	worker worker.Config // without connections and store

	http        httpFlags
	api         *api.Config // nil without --api
	metricsTags int

	allowUnsynced bool
	examined      health.Collector // without connections
	demo          bool
	log           *zap.Logger
	errs          *journal
}

// maxMetricsTags bounds the size of a scrape.
const maxMetricsTags = 100_000

// config converts the flags, and rejects conflicting ones.
func (s *serveCmd) config(ctx context.Context, command *kong.Context, files *secretfile.Set) (cfg serverConfig, err error) {
	log := files.Log
	for _, flag := range []string{"listen", "data"} {
		if s.named() && isGiven(command, flag) {
			return cfg, problem.Usage(fmt.Errorf("--%s is for the embedded NATS server, but %s names another; omit one of them", flag, s.namedBy(command)))
		}
	}
	lease, err := s.lease()
	if err != nil {
		return cfg, err
	}
	cfg = serverConfig{
		nats: s.natsFlags, files: files, migrate: s.Migrate, metricsTags: s.MetricsTags, allowUnsynced: s.AllowUnsynced, demo: s.Demo, log: log,
		worker: worker.Config{
			Prefix: s.Prefix, Role: s.Role, Replicas: s.Replicas, MaxBatch: s.MaxBatch, MaxStep: s.MaxStep, Wait: s.Wait,
			Installation: s.Installation, Lease: lease, Version: version, Log: log,
		},
	}
	if err := cmp.Or(cfg.worker.Check(), s.checkPin()); err != nil {
		return cfg, err
	}
	cfg.admit = func(ctx context.Context, js jetstream.JetStream) error {
		return s.admit(ctx, js, s.Prefix, s.Replicas, newOutage, s.notes(), log)
	}
	cfg.source, err = s.backendOf(files)
	switch {
	case err != nil:
		return cfg, err
	// The embedded server guards its data with a register.
	case s.Role == worker.RoleSnowflake && !s.named():
		return cfg, problem.Usage(errors.New("--role snowflake needs your own NATS server: name it with --server"))
	case s.Role == worker.RoleSnowflake && s.Demo:
		return cfg, problem.Usage(errors.New("--demo creates a tag: use it with --role all"))
	case s.Migrate && cfg.source.Kind() == backend.JetStream:
		return cfg, problem.Usage(errors.New("--migrate needs a database, see --store"))
	case s.MetricsTags < 0 || s.MetricsTags > maxMetricsTags:
		return cfg, problem.Usage(fmt.Errorf("--metrics-tags %d: allowed is 0 to %d", s.MetricsTags, maxMetricsTags))
	}
	if s.named() && s.Role.Loads() {
		cfg.witness, cfg.shelf = s.Witness, s.shelf()
	} else if !s.named() {
		cfg.embedded, err = s.embeddedConfig(log)
	}
	if err != nil {
		return cfg, err
	}
	cfg.examined = health.Collector{
		Prefix: s.Prefix, Role: rights.Duty(s.Role), Resources: resourceFlags{LeaseTTL: s.LeaseTTL}.resources(s.Prefix, partAll), Store: cfg.source,
		AllowUnsynced: s.AllowUnsynced, MaxClockSkew: s.MaxClockSkew, Layout: lease.Layout, Explain: explain,
	}
	cfg.http = s.httpFlags
	callers := s.API
	if s.Demo {
		cfg.http.HTTP, callers = s.demoAddresses(ctx, log)
	}
	cfg.api, err = s.apiFlags.config(callers, cfg)
	return cfg, err
}

// embeddedConfig configures the embedded server.
func (s *serveCmd) embeddedConfig(log *zap.Logger) (*embedded.Config, error) {
	if s.hasLogin() {
		log.Warn("login and TLS settings ignored",
			zap.String("reason", "the embedded NATS server has no logins"), zap.String("hint", "use your own server with --server"))
	}
	host, port, err := splitAddress("--listen", s.Listen)
	if err != nil {
		return nil, err
	}
	if !isLoopback(host) {
		log.Warn("listening without logins on the network", zap.String("listen", s.Listen),
			zap.String("risk", "anyone who reaches this address can get IDs, and change or delete the counters"),
			zap.String("hint", "listen on 127.0.0.1, or use a server with logins, see nats.conf"))
	}
	return &embedded.Config{
		Host: host, Port: port, Folder: s.Data, Witness: s.Witness, Prefix: s.Prefix, Beside: backend.Beside(s.Prefix), Log: log,
		Admit: func(ctx context.Context, js jetstream.JetStream) error {
			return s.admit(ctx, js, s.Prefix, 1, 0, nil, log)
		},
	}, nil
}

// isLoopback reports whether only this machine can reach a listener. Any other
// name may be another machine's.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// serveUntilStopped runs a command that serves. At SIGHUP it rereads the files,
// which show in the log if they changed or cannot be used. SIGTERM and Ctrl-C
// end ctx, and with it the command, at any time: that is success, whatever
// could not be finished.
func serveUntilStopped(ctx context.Context, files *secretfile.Set, serve func(context.Context) error) error {
	log := files.Log
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	for {
		select {
		case <-hangUps:
			log.Info("SIGHUP: rereading files")
			go files.Reread() // a file may hang
		case err := <-ended:
			switch {
			case ctx.Err() == nil:
				return err
			case errors.Is(err, context.Canceled):
				log.Info("stopped before it served")
			case err != nil:
				log.Warn("stopped with work unfinished", zap.Error(err))
			}
			return nil
		}
	}
}

// answerWithin is the time in which the NATS server has to answer during a stop.
const answerWithin = 2 * time.Second

// cutOff closes the connections whose server does not answer, so that the rest
// of a stop does not wait for it. Other processes take that for a crash. ctx
// ends when the stop is over.
func cutOff(ctx context.Context, log *zap.Logger, conns ...*nats.Conn) {
	answers, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var silent []*nats.Conn
	for _, conn := range conns {
		if conn.FlushWithContext(answers) != nil {
			silent = append(silent, conn)
		}
	}
	if len(silent) == 0 || ctx.Err() != nil {
		return
	}
	log.Warn("NATS does not answer, stopping anyway", zap.String("risk", "the last messages may be lost; a worker ID is free once its lease expires"))
	var closing sync.WaitGroup
	for _, conn := range silent {
		closing.Go(conn.Close) // which waits for a dial
	}
	closing.Wait()
}
