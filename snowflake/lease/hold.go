package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/snowflake"
)

// holder is a process that holds a worker ID, from claim to release. All fields
// but hi and renewed belong to one goroutine.
type holder struct {
	cfg    *Config
	worker int64
	id     string // marks the entries as ours
	host   string // only for readers of the leases
	since  time.Time
	length time.Duration // of the fence: from a heartbeat to its end
	clock  *ownClock
	others others
	uses   *useLog
	woken  chan struct{} // a heartbeat is due at once
	// The connection was lost, or the clock jumped, since the last heartbeat
	// that succeeded.
	doubt bool

	lease ownEntry
	fence ownEntry // in the clock bucket
	// Refused writes in a row after which the fence read older than before.
	behind int
	hi     atomic.Int64 // the end of the time that is certainly ours

	gen     *snowflake.Generator
	renewed atomic.Pointer[renewal] // the last

	manager *Manager
	losses  uint64 // of the clock bucket, recorded at the claim
	// The server's time before the last confirmed write of the fence.
	confirmed time.Time

	jumpMu sync.Mutex
	jumps  int // of the clock, so far
	// The number of these when the latest successful heartbeat began.
	settled int
}

// renewal is a heartbeat that succeeded.
type renewal struct{ began, overdue time.Time }

// claim claims the worker ID: the lease, then the time from hi on. ErrLost
// means that another process holds it.
func (h *holder) claim(ctx context.Context, hi int64) error {
	if err := h.writeLease(ctx); err != nil {
		return err
	}
	used := h.uses.begin(h.lease.key, h.id)
	// The time below hi belongs to earlier holders, even if the last of them
	// was ahead of its clock. The bucket may have lost the time of a holder in
	// this process.
	lo := max(hi, used, h.cfg.Layout.TimestampAt(h.since), 0)
	err := h.reserveFrom(ctx, lo)
	if err == nil {
		return nil
	}
	h.uses.end(h.lease.key, used)
	if errors.Is(err, errInUse) { // others may not reach that process
		return errors.Join(err, h.removeLease())
	}
	return errors.Join(err, h.giveBack(lo))
}

// reserveFrom reserves the time from lo on and makes the generator for it. It
// begins in the time unit after the answers of the other processes: after a
// restore, the buckets do not show a hold that ended while they were asked.
func (h *holder) reserveFrom(ctx context.Context, lo int64) error {
	if err := h.writeHi(ctx, lo+h.cfg.units(h.length)); err != nil {
		return err
	}
	// Compare again: the write may have reached a new bucket.
	if err := h.checkSameBucket(ctx); err != nil {
		return err
	}
	if err := h.checkOthers(ctx, lo); err != nil {
		return err
	}
	// A clock that jumped ahead meanwhile must not give that time away.
	lo = min(max(lo, h.cfg.Layout.TimestampAt(h.clock.time())+1), h.hi.Load())
	var err error
	h.gen, err = snowflake.New(snowflake.Settings{
		Layout:     h.cfg.Layout,
		Datacenter: h.cfg.Datacenter,
		Worker:     h.worker,
		Fence:      snowflake.Fence{Lo: lo, Hi: h.hi.Load()},
		MaxAhead:   h.cfg.MaxAhead,
		Clock:      h.clock.now,
	})
	return err
}

// Frequencies of renewal, per TTL.
const (
	beatsPerTTL   = 3
	retriesPerTTL = 30 // after a heartbeat that failed
)

// renewUntilLost sends heartbeats until ctx ends or the worker ID is lost, and
// returns why. It calls suspended when a heartbeat failed while the generator is
// suspended, and when one succeeds after that.
func (h *holder) renewUntilLost(ctx context.Context, suspended func(yes bool)) error {
	next := h.renewed.Load().began.Add(h.untilNextBeat())
	warned, reported := false, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		case <-h.others.reconnected(): // JetStream may have regressed
			h.doubt = true
		case <-h.woken:
			h.doubt = true
		}
		h.drainWakes()
		began := time.Now()
		ends := h.renewed.Load().began.Add(h.length)
		err := h.renew(ctx, ends)
		switch {
		case err == nil:
			if warned {
				h.cfg.Log.Info("worker ID confirmed again", zap.String("worker_id", h.lease.key))
			}
			if reported {
				suspended(false)
			}
			warned, reported = false, false
			h.confirm(began)
			next = began.Add(h.untilNextBeat())
			continue
		case isFinal(err), ctx.Err() != nil:
			return err
		case !time.Now().Before(ends):
			return fmt.Errorf("%w: no heartbeat succeeded for %v: %w", ErrLost, h.length, err)
		}
		if errors.Is(err, ErrClockLost) || errors.Is(err, errStale) {
			h.doubt = true
		}
		if h.unconfirmed() > 0 && !warned {
			h.cfg.Log.Warn("worker ID not confirmed, in use until its time ends",
				zap.String("worker_id", h.lease.key), zap.Time("until", ends), zap.Error(err))
			warned = true
		}
		if !reported && h.isSuspended() {
			suspended(true)
			reported = true
		}
		next = time.Now().Add(h.retryPause(ends))
	}
}

// retryPause is short for a TTL after the last heartbeat that succeeded, and for
// a TTL before the fence ends: others may take the worker ID soon. In between
// JetStream may be away for long.
func (h *holder) retryPause(ends time.Time) time.Duration {
	if h.unconfirmed() > 0 && time.Until(ends) > h.cfg.TTL {
		return h.untilNextBeat()
	}
	return h.cfg.TTL / retriesPerTTL
}

// confirm notes a heartbeat that succeeded.
func (h *holder) confirm(began time.Time) {
	h.renewed.Store(&renewal{began, began.Add(h.cfg.TTL)})
}

// unconfirmed is how long no heartbeat has succeeded, 0 if less than a TTL.
func (h *holder) unconfirmed() time.Duration {
	last, now := h.renewed.Load(), time.Now()
	if now.Before(last.overdue) {
		return 0
	}
	return now.Sub(last.began)
}

// drainWakes drains the reasons for a heartbeat, which begins now. The
// connection may have been restored many times while the process sought a
// worker ID.
func (h *holder) drainWakes() {
	for back := h.others.reconnected(); len(back) > 0; h.doubt = true {
		<-back
	}
	for ; len(h.woken) > 0; h.doubt = true {
		<-h.woken
	}
}

// untilNextBeat is up to a tenth shorter than it has to be. Otherwise, holders
// that began at the same moment, or whose JetStream came back then, would all
// write at the same moment for ever.
func (h *holder) untilNextBeat() time.Duration {
	return h.cfg.TTL/beatsPerTTL - rand.N(h.cfg.TTL/retriesPerTTL)
}

// isFinal reports whether a heartbeat failed in a way that no retry can mend. An
// entry that is gone or older, or a clock bucket that lost entries, is no evidence
// that another process holds the worker ID.
func isFinal(err error) bool {
	return errors.Is(err, ErrLost) && !errors.Is(err, errGone) && !errors.Is(err, errStale) || errors.Is(err, ErrClockSkew) || errors.Is(err, ErrForeignLayout)
}

// renew sends a heartbeat.
func (h *holder) renew(ctx context.Context, ends time.Time) error {
	h.jumpMu.Lock()
	jumps := h.jumps
	h.jumpMu.Unlock()
	err := h.beat(ctx, ends)
	if err == nil {
		h.doubt = false
		h.extend(jumps)
	}
	return err
}

// beat writes both entries, and succeeds only if both writes do: a lease
// without time is useless. It recreates a lease that is gone only after the fence
// proved to be ours: otherwise the new lease would block the next holder, or a
// copy of this process.
func (h *holder) beat(ctx context.Context, ends time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	if err := h.checkStillOurs(ctx); err != nil {
		return err
	}
	err := h.renewLease(ctx)
	gone := errors.Is(err, errGone)
	if err != nil && !gone {
		return err
	}
	if gone && h.unconfirmed() == 0 { // too early: it was deleted, or its bucket has another TTL now
		if err := h.manager.adoptTTL(ctx); err != nil {
			return err
		}
		h.length = max(h.length, fenceLength(h.cfg.TTL))
	}
	if err := h.renewFence(ctx); err != nil || !gone {
		return err
	}
	return h.recreateLease(ctx)
}

// checkStillOurs reads the fence when in doubt. After a restore, another
// holder's entry may have our revision, so that our next write would succeed, or
// a lower one. A failed or stale read proves nothing; the write decides then.
func (h *holder) checkStillOurs(ctx context.Context) error {
	if !h.doubt {
		return nil
	}
	// Without JetStream, the writes take long enough.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := h.fence.bucket.get(ctx, h.fence.key)
	if err != nil || found.revision < h.fence.revision && !found.created.After(h.confirmed) {
		return nil
	}
	if by, err := h.fence.stamp(found); err == nil && by.hold == h.id {
		return nil
	}
	return fmt.Errorf("%w: another holder has its entry", ErrLost)
}

// maxAbsent is the number of refused writes followed by empty reads after which
// a lease counts as gone.
const maxAbsent = 5

// renewLease writes the lease, and retries if it appears to be gone too early.
// A former leader that was frozen refuses writes for a moment after it resumes,
// and has expired the leases whose renewal it missed. The fence holds during
// that time.
func (h *holder) renewLease(ctx context.Context) error {
	for try := 1; ; try++ {
		err := h.writeLease(ctx)
		if !errors.Is(err, errGone) || h.unconfirmed() > 0 || try == maxAbsent {
			return err
		}
		if pause.For(ctx, h.cfg.TTL/retriesPerTTL); ctx.Err() != nil {
			return err
		}
	}
}

// renewFence compares the clock and raises hi. It writes the fence even if hi
// stays the same: a successful write proves that no other process has held the
// worker ID since the last write.
func (h *holder) renewFence(ctx context.Context) error {
	read, err := h.clock.readServer(ctx)
	if err != nil {
		return err
	}
	if err := h.clock.checkDrift(ctx, read); err != nil {
		return err
	}
	known := h.fence.known
	err = h.checkForward(ctx, read)
	if err == nil {
		// From the time just compared: a clock that jumps a day ahead now must
		// not give that day away. Never lower, even if the clock was set back.
		hi := h.cfg.Layout.TimestampAt(read.before) + h.cfg.units(h.length)
		err = h.writeHi(ctx, max(hi, h.hi.Load()))
	}
	if err != nil {
		h.fence.known = known // the stream may have grown after it had regressed
	} else {
		h.confirmed = read.server
	}
	h.manager.known.note(h.losses, h.fence.known.Last)
	return h.manager.noteLoss(ctx, read.before, err, &h.fence)
}

// suspend stops the generator until a heartbeat has succeeded, which begins at
// once.
func (h *holder) suspend() {
	if h.gen == nil {
		return
	}
	h.jumpMu.Lock()
	h.jumps++
	h.gen.Suspend()
	h.jumpMu.Unlock()
	select {
	case h.woken <- struct{}{}:
	default: // a wake is pending
	}
}

// isSuspended reports whether no heartbeat that began after the latest jump has
// succeeded.
func (h *holder) isSuspended() bool {
	h.jumpMu.Lock()
	defer h.jumpMu.Unlock()
	return h.settled != h.jumps
}

// extend gives the generator the time that is certainly ours, unless the clock
// has jumped more than jumps times. A copy may have used that time since the
// jump, which only a heartbeat that begins now would reveal.
func (h *holder) extend(jumps int) {
	if h.gen == nil {
		return
	}
	h.jumpMu.Lock()
	defer h.jumpMu.Unlock()
	if h.settled = jumps; jumps == h.jumps {
		h.gen.Extend(h.hi.Load())
	}
}

// errInUse: a running process holds the claimed worker ID, or used its time.
var errInUse = fmt.Errorf("%w: another process uses it", ErrLost)

// checkOthers makes sure that no running process uses the worker ID, or has
// used it from lo on. The buckets may have been restored to an older state, and
// only processes remember. ErrLost means that one of them does. It queries
// after the claim was written, so only one of several claimers does.
func (h *holder) checkOthers(ctx context.Context, lo int64) error {
	end, err := h.others.query(ctx, h.lease.key, h.id)
	if err != nil || end <= lo {
		return err
	}
	h.cfg.Log.Error("claimed worker ID is in use",
		zap.String("worker_id", h.lease.key), zap.String("hint", "the buckets may have been restored to an older state"))
	return errInUse
}

// checkSameBucket makes sure that the clock bucket is still the admitted
// bucket. A heartbeat needs no such check: only the bucket of the claim has
// this hold's entry.
func (h *holder) checkSameBucket(ctx context.Context) error {
	_, err := h.clock.checkBucket(ctx, h.fence.bucket, h.fence.known, h.fence.known.Last)
	return err
}

// checkForward makes sure that the clock bucket has not regressed.
func (h *holder) checkForward(ctx context.Context, read reading) (err error) {
	h.fence.known, err = h.clock.checkForward(ctx, h.fence.known, position.Position{ID: h.fence.known.ID, Last: read.last})
	return err
}

// writeLease writes the lease, with the time of this clock.
func (h *holder) writeLease(ctx context.Context) error {
	number := newNonce()
	_, err := h.lease.write(ctx, number, h.leaseValue(number))
	return err
}

// recreateLease creates a lease again that is gone. ErrLost, other than errGone,
// means that another process was faster.
func (h *holder) recreateLease(ctx context.Context) error {
	number := newNonce()
	err := h.lease.recreate(ctx, number, h.leaseValue(number), 0)
	if !errors.Is(err, errGone) || !errors.Is(err, errConflict) {
		return err
	}
	leases, err := h.lease.bucket.list(ctx)
	if err != nil {
		return err
	}
	marker := slices.IndexFunc(leases, func(r bucketEntry) bool { return r.key == h.lease.key && r.deleted })
	if marker < 0 {
		return errGone // a replica that lags; or it expired now
	}
	number = newNonce()
	return h.lease.recreate(ctx, number, h.leaseValue(number), leases[marker].revision)
}

func (h *holder) leaseValue(number string) []byte {
	return encode(leaseValue{
		Hold:     h.id,
		Instance: h.cfg.Instance,
		Host:     h.host,
		Since:    h.since,
		Clock:    h.clock.time().UnixMilli(),
		Layout:   h.cfg.Layout.String(),
		Write:    number,
		Seq:      h.fence.known.Last,
		Losses:   h.losses,
		Fence:    h.length.Milliseconds(),

		Installation: h.cfg.Installation,
	})
}

// writeHi writes hi to the clock bucket. After an error, h.hi still is the end
// of the time that is certainly ours, which may have grown.
func (h *holder) writeHi(ctx context.Context, hi int64) error {
	number := newNonce()
	written, err := h.fence.write(ctx, number, encode(clockValue{Hi: hi, Hold: h.id, Write: number}))
	if written != nil {
		v, corrupt := decodeClock(bucketEntry{key: h.fence.key, value: written})
		if corrupt != nil {
			return corrupt
		}
		h.hi.Store(v.Hi)
		h.extend(h.settled)
	}
	return h.checkBehind(err)
}

// maxBehind is the number of refused writes in a row after which a fence that
// reads older than before, or is gone, counts as regressed. A single refusal may
// come from a replica that lags behind a late write of ours.
const maxBehind = 3

// checkBehind returns an ErrClockLost if the fence keeps reading older than it
// was, or as gone.
func (h *holder) checkBehind(err error) error {
	if !errors.Is(err, errConflict) || !errors.Is(err, errBehind) && !errors.Is(err, errGone) {
		h.behind = 0
		return err
	}
	if h.behind++; h.behind < maxBehind {
		return err
	}
	return fmt.Errorf("%w: fence of worker ID %s is older than revision %d: %w", ErrClockLost, h.fence.key, h.fence.revision, err)
}
