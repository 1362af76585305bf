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

// seek claims a free worker ID and returns the hold.
func (m *Manager) seek(ctx context.Context) (*hold, error) {
	if time.Now().Before(m.quietUntil) {
		return nil, m.quietErr
	}
	clock := m.newClock()
	admitted, err := m.admit(ctx, clock)
	if err != nil {
		return nil, err
	}
	read := admitted.read
	// The time from here on is the one that was compared with others'.
	now := m.cfg.Layout.TimestampAt(read.before)
	if now > m.cfg.Layout.MaxTimestamp() {
		return nil, snowflake.ErrExhausted
	}
	clocks, err := m.clocks.list(ctx)
	if err != nil {
		return nil, err
	}
	f := m.sortRecords(admitted.leases, clocks)
	for {
		worker, err := f.choose(m.cfg.Layout, now, m.cfg.units(m.cfg.MaxAhead))
		if err != nil {
			return nil, err
		}
		h := m.newHold(worker, f, clock, admitted)
		err = h.claim(ctx, f.clocks[worker].hi)
		if !errors.Is(err, ErrLost) {
			return h, err
		}
		f.leases[worker] = leaseMark{} // somebody else was faster
	}
}

// newHold returns a hold that has claimed nothing yet. Its claim succeeds only if the
// entries of the worker ID still are as they were listed.
func (m *Manager) newHold(worker int64, f field, clock *ownClock, admitted admission) *hold {
	id := nuid.Next()
	key := key(m.cfg.Layout, m.cfg.Datacenter, worker)
	return &hold{
		cfg:      &m.cfg,
		worker:   worker,
		id:       id,
		host:     m.host,
		since:    admitted.read.before,
		clock:    clock,
		identity: admitted.identity,
		renewed:  time.Now(),
		lease:    entry{bucket: m.workers, key: key, hold: id, stamp: leaseStamp, revision: f.leases[worker].revision},
		fence: entry{bucket: m.clocks, key: key, hold: id, stamp: clockStamp, revision: f.clocks[worker].revision,
			reached: admitted.reached},
	}
}

// field is what the buckets say about the worker IDs of one datacenter.
type field struct {
	leases map[int64]leaseMark
	clocks map[int64]clockMark
}

type leaseMark struct {
	revision uint64
	free     bool // the entry only marks that a lease was deleted
}

type clockMark struct {
	revision uint64
	hi       int64
	err      error // the entry cannot be read
}

// sortRecords sorts what was listed by worker ID. A lease that cannot be read is
// somebody's.
func (m *Manager) sortRecords(leases, clocks []record) field {
	f := field{make(map[int64]leaseMark), make(map[int64]clockMark)}
	for _, r := range leases {
		if worker, ok := m.workerOf(r); ok {
			f.leases[worker] = leaseMark{r.revision, r.deleted}
		}
	}
	for _, r := range clocks {
		if worker, ok := m.workerOf(r); ok {
			v, err := decodeClock(r)
			f.clocks[worker] = clockMark{r.revision, v.Hi, err}
		}
	}
	return f
}

// workerOf returns the worker ID that a record is about, if it is one of this
// datacenter.
func (m *Manager) workerOf(r record) (worker int64, ok bool) {
	datacenter, worker, ok := parseKey(m.cfg.Layout, r.key)
	return worker, ok && datacenter == m.cfg.Datacenter
}

// choose returns a free worker ID, random among those that are equally good, or
// ErrNoWorkerID. A worker ID without any entry was never used and is as good as any
// other, so the search goes all the way round only if nearly all have entries.
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
		err = fmt.Errorf("%w, %d have their time given away too far ahead of the clock", err, early)
	}
	if broken != nil {
		err = fmt.Errorf("%w, %d are unusable: %w", err, len(broken), broken[0])
	}
	return 0, err
}
