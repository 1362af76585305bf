package lease

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/snowflake"
)

// ownClock is the clock of one hold, and what it is compared with: the clocks of the
// server and of the other workers.
type ownClock struct {
	cfg     *Config
	now     snowflake.Clock
	server  server
	workers bucket        // the clocks of the other workers are in their leases
	diff    *atomic.Int64 // the last difference from the server's, in nanoseconds

	outvoted bool // the server's clock is off, and that was logged

	// jumped is called when the system's clock has gone ahead of this one: the machine may have been
	// resumed from a snapshot, beside a copy of this process or after it.
	jumped func()
}

func (m *Manager) newClock() *ownClock {
	c := &ownClock{cfg: &m.cfg, now: m.cfg.Clock, server: m.server, workers: m.workers, diff: &m.clockDiff, jumped: func() {}}
	if c.now == nil {
		c.now = snowflake.WatchedClock(func() { c.jumped() })
	}
	return c
}

// time is what the clock says.
func (c *ownClock) time() time.Time { return time.Unix(0, c.now()).UTC() }

// reading is the server's time, and this process's before and after the server was
// asked. The two can be far apart, if the process was paused in between.
type reading struct {
	before, after, server time.Time

	last uint64 // sequence of the clock bucket's stream
}

// askServer reads the server's clock.
func (c *ownClock) askServer(ctx context.Context) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(c.cfg.TTL))
	defer cancel()
	before := c.time()
	a, err := c.server.ask(ctx)
	read := reading{before: before, after: c.time(), server: a.now, last: a.last}
	if err == nil {
		c.diff.Store(int64(read.diff()))
	}
	return read, err
}

// checkDrift compares the clock while a worker ID is held. The error is ErrClockSkew if
// the worker ID has to be given up.
func (c *ownClock) checkDrift(ctx context.Context, read reading) error {
	limit := c.cfg.MaxClockSkew
	if !read.offServer(limit) {
		c.outvoted = false
		return nil
	}
	// The others are asked only if there is a reason to.
	leases, err := c.workers.list(ctx)
	if err != nil {
		return err
	}
	others, err := c.peersOf(leases)
	if err != nil {
		return err
	}
	if len(others) < 2 || read.offPeers(others, limit) {
		return skewError(read, others)
	}
	if !c.outvoted {
		c.outvoted = true
		c.cfg.Log.Warn("the server's clock differs from those of all workers", zap.Error(skewError(read, others)))
	}
	return nil
}
