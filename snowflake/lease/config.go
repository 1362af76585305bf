package lease

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// The defaults of [Config].
const (
	DefaultTTL          = 30 * time.Second
	DefaultMaxClockSkew = 5 * time.Second
)

// The bounds of a TTL. The server may take 250 ms to notice that an entry has
// expired, and with a short TTL a short pause costs the worker ID.
const (
	minTTL = time.Second
	maxTTL = time.Hour
)

// Config configures a [Manager]. JS and Layout must be set. JS should not use
// the connection on which requests are answered: heartbeats must not queue
// behind replies.
type Config struct {
	JS     jetstream.JetStream
	Prefix messages.Prefix

	Layout     snowflake.Layout
	Datacenter int64 // which of the layout's datacenters this is

	// Worker is the worker ID to use; nil means any free worker ID. Set it for
	// all processes of a datacenter or for none: a process without it may claim
	// the worker ID of a process with it.
	Worker *int64

	// Instance names this process in its lease.
	Instance string

	// Installation is the ID of the process's installation. It only informs
	// readers of the leases.
	Installation string

	// TTL is the expected TTL of the bucket of leases. A claim uses the
	// bucket's TTL if that differs.
	TTL time.Duration

	// MaxAhead is the most by which IDs may run ahead of the clock.
	MaxAhead time.Duration

	// MaxClockSkew is the greatest difference from the clocks of the server and
	// of the other workers.
	MaxClockSkew time.Duration

	// Clock is the clock of all holds. If it is nil, each hold has a
	// snowflake.SystemClock of its own. So a worker ID that was given up
	// because the clock was off can be claimed again once the system's clock is
	// right.
	Clock snowflake.Clock

	Log *zap.Logger
}

// withDefaults fills in unset settings.
func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, messages.DefaultPrefix)
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.MaxAhead = cmp.Or(c.MaxAhead, snowflake.DefaultMaxAhead)
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, DefaultMaxClockSkew)
	if c.Instance == "" {
		c.Instance = nuid.Next()
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// check returns the first invalid setting, with its bounds.
func (c Config) check() error {
	if err := c.Prefix.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Layout.IsZero() {
		return fmt.Errorf("%w: no layout", ErrConfig)
	}
	if d := c.Layout.MaxDatacenter(); c.Datacenter < 0 || c.Datacenter > d {
		return fmt.Errorf("%w: datacenter %d, allowed is 0 to %d", ErrConfig, c.Datacenter, d)
	}
	if highest := c.Layout.MaxWorkerID(); c.Worker != nil && (*c.Worker < 0 || *c.Worker > highest) {
		return fmt.Errorf("%w: worker ID %d, allowed is 0 to %d with layout %s", ErrConfig, *c.Worker, highest, c.Layout)
	}
	if err := checkTTL(c.TTL, c.Layout); err != nil {
		return err
	}
	if c.MaxAhead < 0 || c.MaxClockSkew < 0 {
		return fmt.Errorf("%w: MaxAhead %v and MaxClockSkew %v, allowed is 0 or more", ErrConfig, c.MaxAhead, c.MaxClockSkew)
	}
	return nil
}

// minFence is the least length of a fence, however short the TTL is. JetStream
// may need 4 to 9 seconds to elect another leader for a bucket whose leader
// froze, and a holder must go on without it for that time. The price: the
// worker ID of a process that died stays blocked for 15 s, even with a shorter
// TTL.
const minFence = 15 * time.Second

// fenceLength is the time from a heartbeat to the end of the fence.
func fenceLength(ttl time.Duration) time.Duration { return max(ttl, minFence) }

// units is a duration in the layout's time units.
func (c *Config) units(d time.Duration) int64 { return int64(d / c.Layout.Spec().Unit) }

// CheckTTL checks the TTL of a new bucket. Workers also accept shorter ones,
// which free no worker ID sooner. Its error is ErrConfig.
func CheckTTL(ttl time.Duration) error { return ttlWithin(ttl, minFence) }

// checkTTL requires some time units of the layout between two heartbeats.
func checkTTL(ttl time.Duration, l snowflake.Layout) error {
	return ttlWithin(ttl, max(minTTL, 30*l.Spec().Unit))
}

func ttlWithin(ttl, least time.Duration) error {
	if ttl < least || ttl > maxTTL {
		return fmt.Errorf("%w: TTL %v, allowed is %v to %v", ErrConfig, ttl, least, maxTTL)
	}
	return nil
}
