package lease

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/snowflake"
)

// ownClock is the clock of a hold, with the clocks that it is compared with:
// those of the server and of the other workers.
type ownClock struct {
	cfg     *Config
	now     snowflake.Clock
	server  server
	workers bucket // the clocks of the other workers are in their leases
	seen    *sightings
	// The last difference from the server's, in nanoseconds.
	diff *atomic.Int64

	outvoted bool // the server's clock is off, and that was logged

	lossWaits func() (lower, upper time.Duration) // see [Manager.lossWaits]

	// jumped is called when the system's clock has gone ahead of this clock:
	// the machine may have been resumed from a snapshot, perhaps beside a copy
	// of this process.
	jumped func()
}

func (m *Manager) newClock() *ownClock {
	c := &ownClock{cfg: &m.cfg, now: m.cfg.Clock, server: m.server, workers: m.workers, seen: &m.sightings, diff: &m.clockDiff, lossWaits: m.lossWaits, jumped: func() {}}
	if c.now == nil {
		c.now = snowflake.WatchedClock(func() { c.jumped() })
	}
	return c
}

// time returns the clock's present time.
func (c *ownClock) time() time.Time { return time.Unix(0, c.now()).UTC() }

// reading is the server's time, with this process's time before and after the
// request. The latter two are far apart if the process was paused in between.
type reading struct {
	before, after, server time.Time

	last uint64 // sequence of the clock bucket's stream
}

// readServer reads the server's clock.
func (c *ownClock) readServer(ctx context.Context) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(c.cfg.TTL))
	defer cancel()
	before := c.time()
	a, err := c.server.state(ctx)
	read := reading{before: before, after: c.time(), server: a.now, last: a.last}
	if err == nil {
		c.diff.Store(int64(read.diff()))
	}
	return read, err
}

// checkDrift compares the clock while a worker ID is held. The error is
// ErrClockSkew if the worker ID has to be given up.
func (c *ownClock) checkDrift(ctx context.Context, read reading) error {
	limit := c.cfg.MaxClockSkew
	if !read.offServer(limit) {
		c.outvoted = false
		return nil
	}
	// The others are compared only if the server's clock differs.
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
		c.cfg.Log.Warn("server clock disagrees with all workers", zap.Error(skewError(read, others)))
	}
	return nil
}

// peers are the differences of other workers' clocks from the server's,
// ascending; positive if a clock is ahead. A slow heartbeat makes a clock
// appear behind.
type peers []time.Duration

// peersOf reads the clocks of all other processes that may live from the leases.
// A lease with another layout is an error: the config was changed while workers
// ran.
func (c *ownClock) peersOf(leases []bucketEntry) (peers, error) {
	var p peers
	own := c.cfg.Layout.String()
	c.seen.update(leases)
	for _, r := range leases {
		if r.deleted {
			continue
		}
		v, err := decodeLease(r)
		if err != nil || v.Instance == c.cfg.Instance {
			continue
		}
		if v.Layout != own {
			return nil, fmt.Errorf("%w: this worker has %s, worker ID %s has %.100q", ErrForeignLayout, own, r.key, v.Layout)
		}
		if c.seen.age(r.key) < c.cfg.TTL {
			p = append(p, time.UnixMilli(v.Clock).Sub(r.created))
		}
	}
	slices.Sort(p)
	return p, nil
}

// sightings are since when leases have been as they are, as this process saw
// them, by key. A lease that was not renewed for a TTL of that time is of a dead
// process, and its clock is no evidence. The server may keep such a lease for
// longer: it computes the age from the time of day, which may have been set back.
type sightings map[string]sighting

type sighting struct {
	revision uint64
	since    time.Time
}

// update takes in the present leases.
func (s *sightings) update(leases []bucketEntry) {
	next := make(sightings, len(leases))
	for _, r := range leases {
		seen, known := (*s)[r.key]
		if !known || seen.revision != r.revision {
			seen = sighting{r.revision, time.Now()}
		}
		next[r.key] = seen
	}
	*s = next
}

// age is how long a lease has not changed, at least.
func (s sightings) age(key string) time.Duration { return time.Since(s[key].since) }

// median is the middle of the differences. A single wrong clock hardly moves
// it.
func (p peers) median() time.Duration { return p[(len(p)-1)/2]/2 + p[len(p)/2]/2 }

func (p peers) mean() time.Duration {
	// A float, as the sum of differences of ages might overflow a Duration.
	sum := 0.0
	for _, d := range p {
		sum += float64(d) / float64(len(p))
	}
	return time.Duration(sum)
}

// offServer reports whether the clock differs from the server's by more than
// limit, no matter when between before and after the server read its clock.
func (r reading) offServer(limit time.Duration) bool { return r.off(0, limit) }

// offPeers reports whether the clock differs from the other workers' median by
// more than limit. It is false without other workers.
func (r reading) offPeers(p peers, limit time.Duration) bool {
	return len(p) > 0 && r.off(p.median(), limit)
}

// off reports whether the clock differs by more than limit from a clock that is
// this much ahead of the server's.
func (r reading) off(ahead, limit time.Duration) bool {
	other := r.server.Add(ahead)
	return other.Before(r.before.Add(-limit)) || other.After(r.after.Add(limit))
}

// diff estimates the difference from the server's clock; positive if ahead.
func (r reading) diff() time.Duration { return r.middle().Sub(r.server) }

// middle is the middle of the time between before and after.
func (r reading) middle() time.Time { return r.before.Add(r.after.Sub(r.before) / 2) }

// isBefore reports whether this clock and the server's are both before a time.
func (r reading) isBefore(t time.Time) bool { return r.after.Before(t) && r.server.Before(t) }

func epochError(epoch time.Time, r reading) error {
	return fmt.Errorf("%w: epoch %s, own time %s, the server's %s", snowflake.ErrEpoch,
		epoch.Format(time.RFC3339Nano), r.middle().Format(time.RFC3339), r.server.UTC().Format(time.RFC3339))
}

func skewError(r reading, p peers) error {
	const format = "2006-01-02T15:04:05.000Z07:00"
	err := fmt.Errorf("%w: own time %s, the server's %s (difference %v)", ErrClockSkew,
		r.middle().Format(format), r.server.UTC().Format(format), r.diff().Round(time.Millisecond))
	if len(p) == 0 {
		return fmt.Errorf("%w, no other workers", err)
	}
	at := func(ahead time.Duration) string { return r.server.Add(ahead).UTC().Format(format) }
	return fmt.Errorf("%w, other workers %d, their mean %s, median %s", err, len(p), at(p.mean()), at(p.median()))
}
