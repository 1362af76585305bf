package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
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
func (m *Manager) seek(ctx context.Context) (*holder, error) {
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
func (m *Manager) seekOnce(ctx context.Context) (*holder, error) {
	clock := m.newClock()
	admitted, err := m.admit(ctx, clock)
	if err != nil {
		return nil, err
	}
	// The fence begins at the time that was compared with other clocks.
	now := m.cfg.Layout.TimestampAt(admitted.read.before)
	if now > m.cfg.Layout.MaxTimestamp() {
		return nil, snowflake.ErrExhausted
	}
	for tries := 1; ; tries++ {
		h, err := m.claimOne(ctx, admitted, now, clock)
		// There is no other to try.
		if !errors.Is(err, ErrLost) || tries == triesPerList || m.cfg.Worker != nil {
			return h, err
		}
	}
}

// claimOne claims a worker ID that is free according to the admission. ErrLost
// means that another process was faster.
func (m *Manager) claimOne(ctx context.Context, admitted admission, now int64, clock *ownClock) (*holder, error) {
	f := admitted.ids
	worker, err := m.choose(f, admitted.leases, now)
	if err != nil {
		return nil, err
	}
	h := m.newHold(worker, f, clock, admitted)
	if err := h.claim(ctx, f.hi(worker)); err != nil {
		f.leases[worker] = leaseState{}
		return nil, err
	}
	m.previous = worker
	m.known.note(h.losses, h.fence.known.Last)
	return h, nil
}

// choose returns the worker ID to claim: the configured, or a free worker ID.
func (m *Manager) choose(f idTable, leases []bucketEntry, now int64) (int64, error) {
	if m.cfg.Worker != nil {
		return m.given(f, leases, now)
	}
	return f.choose(m.previous, now, m.cfg.units(m.cfg.MaxAhead), m.outage.For > 0)
}

// newHold returns a hold that has claimed nothing yet. Its claim succeeds only
// if the entries of the worker ID still are as they were listed.
func (m *Manager) newHold(worker int64, f idTable, clock *ownClock, admitted admission) *holder {
	id := nuid.Next()
	key := key(m.cfg.Layout, m.cfg.Datacenter, worker)
	h := &holder{
		cfg:    &m.cfg,
		worker: worker,
		id:     id,
		host:   m.host,
		since:  admitted.read.before,
		length: m.fenceOf(worker),
		clock:  clock,
		others: m.others,
		uses:   &m.uses,
		woken:  make(chan struct{}, 1),

		manager:   m,
		losses:    admitted.ids.lost.Count,
		confirmed: admitted.read.server,
		lease:     ownEntry{bucket: m.workers, key: key, hold: id, stamp: leaseStamp, revision: f.leases[worker].revision},
		fence: ownEntry{bucket: m.clocks, key: key, hold: id, stamp: clockStamp, revision: f.clocks[worker].revision,
			known: admitted.clocks},
	}
	h.confirm(time.Now())
	m.fences.add(m.cfg.Layout, worker, h.length)
	clock.jumped = h.suspend
	return h
}

// idTable is the state of a datacenter's worker IDs, from both buckets.
type idTable struct {
	layout snowflake.Layout
	leases map[int64]leaseState
	clocks map[int64]clockState
	lost   Lost

	half         int64 // the first worker ID of the upper half
	lower, upper int64 // ends of the reserved time of lost entries, by half
}

// hi is the end of the reserved time of a worker ID.
func (f idTable) hi(worker int64) int64 {
	if worker >= f.half {
		return max(f.clocks[worker].hi, f.upper)
	}
	return max(f.clocks[worker].hi, f.lower)
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
func (m *Manager) sortEntries(leases, clocks []bucketEntry, lost Lost) idTable {
	lost, layout := lost.join(m.lost), m.cfg.Layout
	f := idTable{
		layout: layout, leases: make(map[int64]leaseState), clocks: make(map[int64]clockState), lost: lost,
		half: UpperHalf(layout), lower: max(0, layout.TimestampAt(lost.Lower)), upper: max(0, layout.TimestampAt(lost.Upper)),
	}
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
// used one, or else a new worker ID, so that the clock bucket has few more
// entries than worker IDs were ever taken at once. If longFirst, the upper half
// comes before the lower. The choice among equals is random, so that processes
// that start together do not all choose the same.
func (f idTable) choose(previous, now, ahead int64, longFirst bool) (int64, error) {
	var past, near, last []int64
	for worker, state := range f.clocks {
		switch hi := f.hi(worker); {
		case f.leased(worker), state.err != nil, hi > now+ahead:
		case worker == previous:
			last = append(last, worker)
		case hi > now:
			near = append(near, worker)
		default:
			past = append(past, worker)
		}
	}
	least := []int64{0}
	if longFirst {
		least = []int64{f.half, 0}
	}
	for _, least := range least {
		candidates := from(least, last)
		if len(candidates) == 0 {
			candidates = from(least, past)
		}
		if len(candidates) == 0 {
			candidates = from(least, near)
		}
		if len(candidates) == 0 {
			candidates = f.unused(least, now+ahead)
		}
		if len(candidates) > 0 {
			return candidates[rand.IntN(len(candidates))], nil
		}
	}
	return 0, f.noneFree(now + ahead)
}

// from returns the worker IDs that are not less than least.
func from(least int64, workers []int64) (all []int64) {
	for _, worker := range workers {
		if worker >= least {
			all = append(all, worker)
		}
	}
	return all
}

// unused returns the worker IDs from least on that are not leased and never
// were, and whose reserved time ends at most at latest.
func (f idTable) unused(least, latest int64) (all []int64) {
	most := f.layout.MaxWorkerID()
	if f.lower > latest {
		least = max(least, f.half)
	}
	if f.upper > latest {
		most = f.half - 1
	}
	for worker := least; worker <= most; worker++ {
		_, used := f.clocks[worker]
		lease, listed := f.leases[worker]
		if !used && (!listed || lease.free) {
			all = append(all, worker)
		}
	}
	return all
}

// noneFree is the error when no worker ID is free: those that are not leased are
// reserved beyond latest, or unusable.
func (f idTable) noneFree(latest int64) error {
	count := f.layout.MaxWorkerID() + 1
	leased, early, first := 0, 0, int64(math.MaxInt64)
	var broken []error
	for worker := range count {
		switch hi := f.hi(worker); {
		case f.leased(worker):
			leased++
		case f.clocks[worker].err != nil:
			broken = append(broken, f.clocks[worker].err)
		case hi > latest:
			early, first = early+1, min(first, hi)
		}
	}
	err := fmt.Errorf("%w: of %d, %d are leased", ErrNoWorkerID, count, leased)
	if early > 0 {
		err = fmt.Errorf("%w, %d are reserved too far ahead of the clock, the first until %s", err, early, f.layout.TimeAt(first).Format(time.RFC3339))
		if f.lost.Count > 0 {
			err = fmt.Errorf("%w, as the clock bucket lost entries", err)
		}
	}
	if broken != nil {
		err = fmt.Errorf("%w, %d are unusable: %w", err, len(broken), broken[0])
	}
	return err
}

// holderWatch counts the renewals of the lease on the configured worker ID.
type holderWatch struct {
	revision uint64 // the highest
	renewals int    // since it was seen first
}

// aliveRenewals is the number of renewals that prove that a holder is alive,
// after two thirds of the TTL. A single renewal may have been in flight when
// its sender died.
const aliveRenewals = 2

// see records a listed lease. An older state, as from a lagging replica, has no
// effect.
func (w *holderWatch) see(revision uint64) {
	if w.revision > 0 && revision > w.revision {
		w.renewals++
	}
	w.revision = max(w.revision, revision)
}

// given returns the configured worker ID, if it is free. Otherwise the error
// names the holder, and whether it is alive.
func (m *Manager) given(f idTable, leases []bucketEntry, now int64) (int64, error) {
	worker := *m.cfg.Worker
	if f.leased(worker) {
		m.holder.see(f.leases[worker].revision)
		return 0, m.heldError(worker, leases)
	}
	m.holder = holderWatch{}
	if err := f.clocks[worker].err; err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoWorkerID, err)
	}
	if hi := f.hi(worker); hi > now+m.cfg.units(m.cfg.MaxAhead) {
		return 0, fmt.Errorf("%w: worker ID %d is reserved until %s",
			ErrNoWorkerID, worker, m.cfg.Layout.TimeAt(hi).Format(time.RFC3339))
	}
	return worker, nil
}

// heldError returns an error that names the holder of the configured worker ID.
func (m *Manager) heldError(worker int64, leases []bucketEntry) error {
	err := &HeldError{Datacenter: m.cfg.Datacenter, Worker: worker, Alive: m.holder.renewals >= aliveRenewals}
	for _, r := range leases {
		if r.key != key(m.cfg.Layout, m.cfg.Datacenter, worker) {
			continue
		}
		if v, corrupt := decodeLease(r); corrupt == nil {
			err.Instance, err.Host, err.Since = v.Instance, v.Host, v.Since
		}
	}
	return err
}
