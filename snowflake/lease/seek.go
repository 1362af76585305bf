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

// triesPerList is the number of claims that may fail before both buckets are
// listed again: a list is soon outdated when many processes come and go.
const triesPerList = 3

// listsPerSeek is the number of lists before a seek reports that other
// processes were faster each time. Processes that start at once need a few.
const listsPerSeek = 10

// seek claims a free worker ID and returns the hold. ErrNoWorkerID may also
// mean that other processes were faster each time.
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

// seekOnce claims a worker ID that is free now. ErrLost means that other
// processes were faster.
func (m *Manager) seekOnce(ctx context.Context) (*hold, error) {
	if err := m.claimsPaused(); err != nil {
		return nil, err
	}
	clock := m.newClock()
	admitted, err := m.admit(ctx, clock)
	if err != nil {
		return nil, err
	}
	// A longer fence may be known by now.
	if err := m.claimsPaused(); err != nil {
		return nil, err
	}
	// The fence begins at the time that was compared with other clocks.
	now := m.cfg.Layout.TimestampAt(admitted.read.before)
	if now > m.cfg.Layout.MaxTimestamp() {
		return nil, snowflake.ErrExhausted
	}
	clocks, err := m.clocks.list(ctx)
	if err != nil {
		return nil, err
	}
	f := m.sortEntries(admitted.leases, clocks)
	for tries := 1; ; tries++ {
		h, err := m.claimOne(ctx, f, now, clock, admitted)
		// There is no other to try.
		if !errors.Is(err, ErrLost) || tries == triesPerList || m.cfg.Worker != nil {
			return h, err
		}
	}
}

// claimOne claims a worker ID that is free according to f. ErrLost means that
// another process was faster.
func (m *Manager) claimOne(ctx context.Context, f idTable, now int64, clock *ownClock, admitted admission) (*hold, error) {
	worker, err := m.choose(f, admitted.leases, now)
	if err != nil {
		return nil, err
	}
	h := m.newHold(worker, f, clock, admitted)
	if err := h.claim(ctx, f.clocks[worker].hi); err != nil {
		f.leases[worker] = leaseState{}
		return nil, err
	}
	m.previous = worker
	return h, nil
}

// choose returns the worker ID to claim: the configured, or a free worker ID.
func (m *Manager) choose(f idTable, leases []bucketEntry, now int64) (int64, error) {
	if m.cfg.Worker != nil {
		return m.given(f, leases, now)
	}
	return f.choose(m.previous, now, m.cfg.units(m.cfg.MaxAhead))
}

// newHold returns a hold that has claimed nothing yet. Its claim succeeds only
// if the entries of the worker ID still are as they were listed.
func (m *Manager) newHold(worker int64, f idTable, clock *ownClock, admitted admission) *hold {
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
		lease:    ownEntry{bucket: m.workers, key: key, hold: id, stamp: leaseStamp, revision: f.leases[worker].revision},
		fence: ownEntry{bucket: m.clocks, key: key, hold: id, stamp: clockStamp, revision: f.clocks[worker].revision,
			reached: admitted.reached},
	}
	clock.jumped = h.suspend
	return h
}

// idTable is the state of a datacenter's worker IDs, from both buckets.
type idTable struct {
	count  int64 // of worker IDs
	leases map[int64]leaseState
	clocks map[int64]clockState
}

type leaseState struct {
	revision uint64
	free     bool // the entry only marks that a lease was deleted
}

type clockState struct {
	revision uint64
	hi       int64
	err      error // the entry cannot be read
}

// sortEntries sorts the entries by worker ID. An unreadable lease counts as
// held.
func (m *Manager) sortEntries(leases, clocks []bucketEntry) idTable {
	f := idTable{m.cfg.Layout.MaxWorkerID() + 1, make(map[int64]leaseState), make(map[int64]clockState)}
	for _, r := range leases {
		if worker, ok := m.workerOf(r); ok {
			f.leases[worker] = leaseState{r.revision, r.deleted}
		}
	}
	for _, r := range clocks {
		if worker, ok := m.workerOf(r); ok {
			v, err := decodeClock(r)
			f.clocks[worker] = clockState{r.revision, v.Hi, err}
		}
	}
	return f
}

// workerOf returns the worker ID of an entry, if it is of this datacenter.
func (m *Manager) workerOf(r bucketEntry) (worker int64, ok bool) {
	datacenter, worker, ok := parseKey(m.cfg.Layout, r.key)
	return worker, ok && datacenter == m.cfg.Datacenter
}

func (f idTable) leased(worker int64) bool {
	state, listed := f.leases[worker]
	return listed && !state.free
}

// choose returns a free worker ID, or ErrNoWorkerID: the previous one, or a
// used one, or else a new worker ID. So the clock bucket has no more entries
// than worker IDs were ever taken at once. The choice among equals is random,
// so that processes that start together do not all choose the same.
func (f idTable) choose(previous, now, ahead int64) (int64, error) {
	var past, near []int64
	early := 0
	var broken []error
	for worker, state := range f.clocks {
		switch {
		case f.leased(worker):
		case state.err != nil:
			broken = append(broken, state.err)
		case state.hi > now+ahead:
			early++
		case worker == previous:
			return worker, nil
		case state.hi > now:
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

// unused returns the worker IDs that are not leased and never were.
func (f idTable) unused() (all []int64) {
	for worker := range f.count {
		if _, used := f.clocks[worker]; !used && !f.leased(worker) {
			all = append(all, worker)
		}
	}
	return all
}

// noneFree is the error when no worker ID is free.
func (f idTable) noneFree(early int, broken []error) error {
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
