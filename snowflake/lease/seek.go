package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/snowflake"
)

// triesPerList is how many claims may fail before everything is looked at again: a list is old
// when many processes come and go at once.
const triesPerList = 3

// listsPerSeek is how often everything is looked at before it is reported that others were
// faster each time. Processes that start at once need a few.
const listsPerSeek = 10

// seek claims a free worker ID and returns the hold. ErrNoWorkerID says, too, that others were
// faster each time.
func (m *Manager) seek(ctx context.Context) (*hold, error) {
	for lists := 1; ; lists++ {
		h, err := m.seekOnce(ctx)
		if !errors.Is(err, ErrLost) {
			return h, err
		}
		if lists == listsPerSeek { // not an ErrLost: no worker ID was held
			return nil, fmt.Errorf("%w: other processes were faster %d times, last: %s", ErrNoWorkerID, lists*triesPerList, err.Error())
		}
		pause.For(ctx, m.seekPause(0))
	}
}

// seekOnce claims a worker ID that is free now. ErrLost says that others were faster.
func (m *Manager) seekOnce(ctx context.Context) (*hold, error) {
	if err := m.mayBeForgotten(); err != nil {
		return nil, err
	}
	clock := m.newClock()
	admitted, err := m.admit(ctx, clock)
	if err != nil {
		return nil, err
	}
	if err := m.mayBeForgotten(); err != nil { // a longer fence may be known by now
		return nil, err
	}
	// The time from here on is the one that was compared with others'.
	now := m.cfg.Layout.TimestampAt(admitted.read.before)
	if now > m.cfg.Layout.MaxTimestamp() {
		return nil, snowflake.ErrExhausted
	}
	clocks, err := m.clocks.list(ctx)
	if err != nil {
		return nil, err
	}
	f := m.sortRecords(admitted.leases, clocks)
	for tries := 1; ; tries++ {
		h, err := m.claimOne(ctx, f, now, clock, admitted)
		if !errors.Is(err, ErrLost) || tries == triesPerList || m.cfg.Worker != nil { // there is no other to try
			return h, err
		}
	}
}

// claimOne claims one of the worker IDs that are free as far as f says. ErrLost says that
// somebody else was faster.
func (m *Manager) claimOne(ctx context.Context, f field, now int64, clock *ownClock, admitted admission) (*hold, error) {
	worker, err := m.choose(f, admitted.leases, now)
	if err != nil {
		return nil, err
	}
	h := m.newHold(worker, f, clock, admitted)
	if err := h.claim(ctx, f.clocks[worker].hi); err != nil {
		f.leases[worker] = leaseMark{}
		return nil, err
	}
	m.previous = worker
	return h, nil
}

// choose returns the worker ID to claim: the one that was given, or one that is free.
func (m *Manager) choose(f field, leases []record, now int64) (int64, error) {
	if m.cfg.Worker != nil {
		return m.given(f, leases, now)
	}
	return f.choose(m.previous, now, m.cfg.units(m.cfg.MaxAhead))
}

// newHold returns a hold that has claimed nothing yet. Its claim succeeds only if the
// entries of the worker ID still are as they were listed.
func (m *Manager) newHold(worker int64, f field, clock *ownClock, admitted admission) *hold {
	id := nuid.Next()
	key := key(m.cfg.Layout, m.cfg.Datacenter, worker)
	h := &hold{
		cfg:      &m.cfg,
		worker:   worker,
		id:       id,
		host:     m.host,
		since:    admitted.read.before,
		clock:    clock,
		identity: admitted.identity,
		others:   m.others,
		uses:     &m.uses,
		woken:    make(chan struct{}, 1),
		renewed:  time.Now(),
		lease:    entry{bucket: m.workers, key: key, hold: id, stamp: leaseStamp, revision: f.leases[worker].revision},
		fence: entry{bucket: m.clocks, key: key, hold: id, stamp: clockStamp, revision: f.clocks[worker].revision,
			reached: admitted.reached},
	}
	clock.jumped = h.suspend
	return h
}

// field is what the buckets say about the worker IDs of one datacenter.
type field struct {
	count  int64 // of worker IDs
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
	f := field{m.cfg.Layout.MaxWorkerID() + 1, make(map[int64]leaseMark), make(map[int64]clockMark)}
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

func (f field) leased(worker int64) bool {
	mark, listed := f.leases[worker]
	return listed && !mark.free
}

// choose returns a free worker ID, or ErrNoWorkerID: the previous one, or else one that was
// used, or else a new one. Among those that are equally good it is random.
func (f field) choose(previous, now, ahead int64) (int64, error) {
	var past, near []int64
	early := 0
	var broken []error
	for worker, mark := range f.clocks {
		switch {
		case f.leased(worker):
		case mark.err != nil:
			broken = append(broken, mark.err)
		case mark.hi > now+ahead:
			early++
		case worker == previous:
			return worker, nil
		case mark.hi > now:
			near = append(near, worker)
		default:
			past = append(past, worker)
		}
	}
	candidates := past
	if len(candidates) == 0 {
		candidates = near
	}
	if len(candidates) == 0 {
		candidates = f.unused()
	}
	if len(candidates) == 0 {
		return 0, f.noneFree(early, broken)
	}
	return candidates[rand.IntN(len(candidates))], nil
}

// unused returns the worker IDs that nobody leases or ever had.
func (f field) unused() (all []int64) {
	for worker := range f.count {
		if _, used := f.clocks[worker]; !used && !f.leased(worker) {
			all = append(all, worker)
		}
	}
	return all
}

// noneFree is the error when no worker ID is free.
func (f field) noneFree(early int, broken []error) error {
	leased := 0
	for worker := range f.leases {
		if f.leased(worker) {
			leased++
		}
	}
	err := fmt.Errorf("%w: of %d, %d are leased", ErrNoWorkerID, f.count, leased)
	if early > 0 {
		err = fmt.Errorf("%w, %d are reserved too far ahead of the clock", err, early)
	}
	if broken != nil {
		err = fmt.Errorf("%w, %d are unusable: %w", err, len(broken), broken[0])
	}
	return err
}
