package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/snowflake"
)

// field is what the buckets say about the worker IDs of a datacenter.
type field struct {
	leases map[int64]leaseMark
	clocks map[int64]clockMark
}

type leaseMark struct {
	revision uint64
	free     bool // the entry only says that there is none
}

type clockMark struct {
	revision uint64
	hi       int64
	err      error // the entry cannot be read
}

// claim looks for a free worker ID and takes it.
func (m *Manager) claim(ctx context.Context) (*hold, error) {
	clock := m.newClock()
	read, leases, err := m.admit(ctx, clock)
	if err != nil {
		return nil, err
	}
	// The time from here on is the one that was compared with others'.
	now := m.cfg.Layout.TimestampAt(read.before)
	if now > m.cfg.Layout.MaxTimestamp() {
		return nil, snowflake.ErrExhausted
	}
	clocks, err := m.list(ctx, m.clocks)
	if err != nil {
		return nil, err
	}
	f := m.fieldOf(leases, clocks)
	for {
		worker, err := f.choose(m.cfg.Layout, now, m.units(m.cfg.MaxAhead))
		if err != nil {
			return nil, err
		}
		h := &hold{
			worker:  worker,
			key:     key(m.cfg.Layout, m.cfg.Datacenter, worker),
			id:      nuid.Next(),
			clock:   clock,
			since:   read.before,
			created: read.created,
			good:    time.Now(),

			leaseRevision: f.leases[worker].revision,
			clockRevision: f.clocks[worker].revision,
		}
		err = m.take(ctx, h, f.clocks[worker].hi)
		if !errors.Is(err, ErrLost) {
			return h, err
		}
		f.leases[worker] = leaseMark{} // somebody else was faster
	}
}

// units is a duration in the layout's units.
func (m *Manager) units(d time.Duration) int64 { return int64(d / m.cfg.Layout.Spec().Unit) }

// fieldOf sorts what was listed by worker ID. A lease that cannot be read is somebody's.
func (m *Manager) fieldOf(leases, clocks []record) field {
	f := field{make(map[int64]leaseMark), make(map[int64]clockMark)}
	for _, r := range leases {
		if worker, ok := m.worker(r); ok {
			f.leases[worker] = leaseMark{r.revision, r.deleted}
		}
	}
	for _, r := range clocks {
		if worker, ok := m.worker(r); ok {
			e, err := decodeClock(r)
			f.clocks[worker] = clockMark{r.revision, e.Hi, err}
		}
	}
	return f
}

// worker is the worker ID that a record is about, if it is one of this datacenter.
func (m *Manager) worker(r record) (worker int64, ok bool) {
	datacenter, worker, ok := parseKey(m.cfg.Layout, r.key)
	return worker, ok && datacenter == m.cfg.Datacenter
}

// choose returns a free worker ID, random among those that are equally good, or
// ErrNoWorkerID. A worker ID without any entry has never been used and is as good as
// any, so the search goes all around only if the buckets are as large.
func (f field) choose(l snowflake.Layout, now, ahead int64) (int64, error) {
	count := l.MaxWorkerID() + 1
	start := rand.Int64N(count)
	second, leased, early := int64(-1), 0, 0
	var broken []error
	for i := range count {
		worker := (start + i) % count
		if mark, listed := f.leases[worker]; listed && !mark.free {
			leased++
			continue
		}
		switch mark := f.clocks[worker]; {
		case mark.err != nil:
			broken = append(broken, mark.err)
		case mark.hi <= now:
			return worker, nil
		case mark.hi <= now+ahead:
			second = worker
		default:
			early++
		}
	}
	if second >= 0 {
		return second, nil
	}
	err := fmt.Errorf("%w: of %d, %d are leased", ErrNoWorkerID, count, leased)
	if early > 0 {
		err = fmt.Errorf("%w, %d have their time given away up to later than now", err, early)
	}
	if broken != nil {
		err = fmt.Errorf("%w, %d are unusable: %w", err, len(broken), broken[0])
	}
	return 0, err
}

// take claims one worker ID: the lease, then the time from hi on. ErrLost says that
// it is somebody else's.
func (m *Manager) take(ctx context.Context, h *hold, hi int64) error {
	if err := m.writeLease(ctx, h); err != nil {
		return err
	}
	// What is below hi belongs to the holders before us, even if the last of them
	// was ahead of its clock.
	lo := max(hi, m.cfg.Layout.TimestampAt(h.since), 0)
	err := m.takeTime(ctx, h, lo)
	if err == nil {
		return nil
	}
	return errors.Join(err, m.clearUp(h, lo))
}

// takeTime reserves the time from lo on and makes the generator for it.
func (m *Manager) takeTime(ctx context.Context, h *hold, lo int64) error {
	if err := m.writeHi(ctx, h, lo+m.units(m.cfg.TTL)); err != nil {
		return err
	}
	// Asked once more: the bucket that took the write may be a new one.
	read, err := m.askServer(ctx, h.clock)
	if err != nil {
		return err
	}
	if err := m.sameBucket(h, read); err != nil {
		return err
	}
	h.gen, err = snowflake.New(snowflake.Settings{
		Layout:     m.cfg.Layout,
		Datacenter: m.cfg.Datacenter,
		Worker:     h.worker,
		Fence:      snowflake.Fence{Lo: lo, Hi: h.hi},
		MaxAhead:   m.cfg.MaxAhead,
		Clock:      h.clock,
	})
	return err
}

// sameBucket makes sure that the clock bucket is the one that it was at the claim.
func (m *Manager) sameBucket(h *hold, read reading) error {
	if read.created.Equal(h.created) {
		return nil
	}
	return fmt.Errorf("%w: %s was created at %v, and now is one of %v", ErrClockLost, ClockBucketName(m.cfg.Prefix), h.created, read.created)
}
