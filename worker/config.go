package worker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/internal/loader"
)

// Role is the part that a process plays in an installation.
type Role string

// The roles.
const (
	RoleAll       Role = "all"       // worker and loader
	RoleWorker    Role = "worker"    // answers requests; needs no store
	RoleLoader    Role = "loader"    // loads segments; answers no requests
	RoleSnowflake Role = "snowflake" // answers requests for snowflake IDs only
)

// Answers reports whether processes of the role answer requests, which include
// those for snowflake IDs.
func (r Role) Answers() bool { return r != RoleLoader }

// AnswersSegments reports whether processes of the role answer requests for IDs
// of tags.
func (r Role) AnswersSegments() bool { return r == RoleAll || r == RoleWorker }

// Loads reports whether processes of the role reserve segments.
func (r Role) Loads() bool { return r == RoleAll || r == RoleLoader }

func (r Role) isValid() bool {
	return r.AnswersSegments() || r.Loads() || r == RoleSnowflake
}

// The defaults of [Config].
const (
	DefaultReservations = 64
	DefaultMaxBatch     = 10_000
)

// Config configures a [Process]. Requests, Control and Version must be set, and
// Store too if the role loads.
type Config struct {
	// Requests is the connection for replies to parked requests. It is also the
	// template for other connections: the worker opens one like it for each
	// queue group, with the same options and handlers.
	Requests *nats.Conn

	// Control is the connection for everything else: loads and grants must not
	// queue behind replies. Both connections belong to the caller, who closes
	// them after Stop.
	Control *nats.Conn

	// JetStream holds the streams and buckets, reached through Control. The
	// default is the JetStream of the account's own domain.
	JetStream jetstream.JetStream

	Prefix messages.Prefix
	Role   Role

	// Installation, if set, is the ID of the installation that JetStream must
	// have: nothing is created in another one. After a reconnect to another
	// one, the process stands by.
	Installation string

	// Made means that this process has made the installation, so that no other
	// process has been part of it.
	Made bool

	// Store supplies the segments. StoreName is its name in INFO and in the
	// config bucket, which keeps processes from counting in different stores.
	Store     store.Reserver
	StoreName string

	// Replicas is the number of replicas of new streams and buckets, 1 to 5.
	Replicas int

	// Reservations bounds a loader's concurrent reservations. If the store
	// queues many of them, they time out when it is slow.
	Reservations int

	// MaxBatch is the largest count of a request, at most MaxStep.
	MaxBatch int64

	// MaxStep is the ceiling of the step policy, and of configured steps.
	MaxStep int64

	// Wait bounds the time that a request waits for a segment.
	Wait time.Duration

	// Lease configures the leases of worker IDs for snowflake IDs. The fields
	// above override its own. The default layout is [snowflake.Default].
	Lease lease.Config

	// Outage is what [Provision] declares if it makes a new installation, see
	// [lease.OutageSetting]; 0: nothing.
	Outage time.Duration

	// Witness describes a loader's witness in its report.
	Witness *WitnessStats

	// Trouble, if set, returns a problem in the environment of the process, or
	// nil. [Process.Degraded] includes it.
	Trouble func() error

	// Interest, if set, returns the number of subscriptions to a subject,
	// wherever they are. A process that is alone then starts without waiting a
	// second for answers of others.
	Interest func(subject string) int

	Version string // semantic version, for INFO
	Log     *zap.Logger
}

// ErrConfig is wrapped by errors about a configuration that cannot work.
var ErrConfig = problem.New(problem.Invalid, "bad configuration")

// WithDefaults fills in the defaults.
func (c Config) WithDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, messages.DefaultPrefix)
	c.Role = cmp.Or(c.Role, RoleAll)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.Reservations = cmp.Or(c.Reservations, DefaultReservations)
	c.MaxBatch = cmp.Or(c.MaxBatch, DefaultMaxBatch)
	c.MaxStep = cmp.Or(c.MaxStep, allocator.DefaultMaxStep)
	c.Wait = cmp.Or(c.Wait, allocator.DefaultWait)
	c.Lease.Layout = cmp.Or(c.Lease.Layout, snowflake.Default())
	c.Lease.TTL = cmp.Or(c.Lease.TTL, lease.DefaultTTL)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// complete is WithDefaults, with a JetStream, and checks the configuration.
func (c Config) complete() (Config, error) {
	c = c.WithDefaults()
	err := c.Check()
	if err == nil && c.JetStream == nil {
		c.JetStream, err = jetstream.New(c.Control)
	}
	return c, err
}

// Check returns the first error of the configuration, with the allowed values.
func (c Config) Check() error {
	if err := c.Prefix.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case !c.Role.isValid():
		return bad("role %q, allowed are all, worker, loader, snowflake", c.Role)
	case c.Replicas < 1 || c.Replicas > 5:
		return bad("%d replicas, allowed is 1 to 5", c.Replicas)
	case c.Reservations < 0:
		return bad("%d reservations at a time, allowed is 0 (the default) or more", c.Reservations)
	case c.MaxStep < 1 || c.MaxStep > loader.MaxStepLimit:
		return bad("largest step %d, allowed is 1 to %d", c.MaxStep, int64(loader.MaxStepLimit))
	case c.MaxBatch < 1 || c.MaxBatch > c.MaxStep:
		return bad("largest batch %d, allowed is 1 to the largest step, %d", c.MaxBatch, c.MaxStep)
	case c.Wait < 10*time.Millisecond || c.Wait > time.Minute:
		return bad("wait of %v, allowed is 10ms to 1m", c.Wait)
	}
	return nil
}
