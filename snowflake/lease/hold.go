package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/snowflake"
)

// hold is one process's period of having one worker ID, from claim to release. All but
// hi is used by one goroutine alone.
type hold struct {
	cfg      *Config
	worker   int64
	id       string // marks the entries as ours
	host     string // only for those who look at the leases
	since    time.Time
	clock    *ownClock
	identity string // of the clock bucket
	others   others
	uses     *uses
	woken    chan struct{} // a heartbeat is due at once
	doubt    bool          // the connection was lost, or the clock jumped, since the last heartbeat that succeeded

	lease  entry
	fence  entry        // in the clock bucket
	behind int          // how often in a row the fence was refused and read as it was before
	hi     atomic.Int64 // the end of the time that is known for certain to be ours

	gen     *snowflake.Generator
	renewed time.Time // when the last heartbeat that succeeded began

	jumpMu  sync.Mutex
	jumps   int // of the clock, so far
	settled int // of these, as many as had been when the last heartbeat that succeeded began
}

// claim claims the worker ID: the lease, then the time from hi on. ErrLost says that it
// is somebody else's.
func (h *hold) claim(ctx context.Context, hi int64) error {
	if err := h.writeLease(ctx); err != nil {
		return err
	}
	used := h.uses.begin(h.lease.key, h.id)
	// What is below hi belongs to the holders before us, even if the last of them
	// was ahead of its clock. If one of them was in this process, the bucket may have forgotten it.
	lo := max(hi, used, h.cfg.Layout.TimestampAt(h.since), 0)
	err := h.reserveFrom(ctx, lo)
	if err == nil {
		return nil
	}
	h.uses.end(h.lease.key, used)
	return errors.Join(err, h.giveBack(lo))
}

// reserveFrom reserves the time from lo on and makes the generator for it.
func (h *hold) reserveFrom(ctx context.Context, lo int64) error {
	if err := h.writeHi(ctx, lo+h.cfg.units(fenceLength(h.cfg.TTL))); err != nil {
		return err
	}
	// Looked at once more: the bucket that accepted the write may be a new one.
	if err := h.checkSameBucket(ctx); err != nil {
		return err
	}
	if err := h.checkOthers(ctx, lo); err != nil {
		return err
	}
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

// How often a hold is renewed, as parts of the TTL.
const (
	beatsPerTTL   = 3
	retriesPerTTL = 30 // after a heartbeat that failed
)

// renewUntilLost sends heartbeats until ctx ends or the worker ID is lost, and returns
// why.
func (h *hold) renewUntilLost(ctx context.Context) error {
	reach := fenceLength(h.cfg.TTL)
	next := h.renewed.Add(h.untilNextBeat())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		case <-h.others.reconnected(): // meanwhile JetStream may have been put back to an older state
			h.doubt = true
		case <-h.woken:
			h.doubt = true
		}
		h.forgetWakes()
		began := time.Now()
		ends := h.renewed.Add(reach)
		err := h.renew(ctx, ends)
		switch {
		case err == nil:
			h.renewed, next = began, began.Add(h.untilNextBeat())
		case isFinal(err), ctx.Err() != nil:
			return err
		case !time.Now().Before(ends):
			return fmt.Errorf("%w: no heartbeat succeeded for %v: %w", ErrLost, reach, err)
		default:
			next = time.Now().Add(h.cfg.TTL / retriesPerTTL)
		}
	}
}

// forgetWakes forgets the reasons for a heartbeat, which begins now. The connection may have been
// back ten times while a worker ID was sought.
func (h *hold) forgetWakes() {
	for back := h.others.reconnected(); len(back) > 0; h.doubt = true {
		<-back
	}
	for ; len(h.woken) > 0; h.doubt = true {
		<-h.woken
	}
}

// untilNextBeat is up to a tenth shorter than it has to be. Otherwise, holders that began at the
// same moment, or whose JetStream came back then, would all write at the same moment for ever.
func (h *hold) untilNextBeat() time.Duration {
	return h.cfg.TTL/beatsPerTTL - rand.N(h.cfg.TTL/retriesPerTTL)
}

// isFinal reports whether a heartbeat failed in a way that no retry can mend.
func isFinal(err error) bool {
	for _, e := range []error{ErrLost, ErrClockSkew, ErrForeignLayout, ErrClockLost} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// renew is one heartbeat.
func (h *hold) renew(ctx context.Context, ends time.Time) error {
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

// beat writes both entries. All of it has to succeed: a lease without time is of no use. A lease
// that has expired is made again, but only once the fence was found to be ours still.
func (h *hold) beat(ctx context.Context, ends time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	if err := h.checkStillOurs(ctx); err != nil {
		return err
	}
	err := h.renewLease(ctx)
	expired := h.leaseExpired(err)
	if err != nil && !expired {
		return err
	}
	if err := h.renewFence(ctx); err != nil || !expired {
		return err
	}
	return h.recreateLease(ctx)
}

// checkStillOurs reads the fence when in doubt. After a restore, another holder's entry may have got the
// very revision that ours had, and the condition of the next write would hold. What cannot be read, or
// is older than what is known, says nothing: then the write has to tell.
func (h *hold) checkStillOurs(ctx context.Context) error {
	if !h.doubt {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // with JetStream away, the writes take long enough
	defer cancel()
	found, err := h.fence.bucket.get(ctx, h.fence.key)
	if err != nil || found.revision < h.fence.revision {
		return nil
	}
	if by, err := h.fence.stamp(found); err == nil && by.hold == h.id {
		return nil
	}
	return fmt.Errorf("%w: another holder has its entry", ErrLost)
}

// maxAbsent is how often a lease has to be refused and then not found until it counts as gone.
const maxAbsent = 5

// renewLease writes the lease, and again if it seems to be gone before its time. A server that led the bucket, was
// frozen until another one led it, and goes on, refuses for a moment what its successor accepts, and
// finds nothing: it has let the leases expire that it did not see renewed. The fence holds meanwhile.
func (h *hold) renewLease(ctx context.Context) error {
	for try := 1; ; try++ {
		err := h.writeLease(ctx)
		if !errors.Is(err, errGone) || h.leaseExpired(err) || try == maxAbsent {
			return err
		}
		if pause.For(ctx, h.cfg.TTL/retriesPerTTL); ctx.Err() != nil {
			return err
		}
	}
}

// leaseExpired reports whether err means that the lease is gone because no heartbeat succeeded
// for the TTL. One that is gone sooner was deleted, or its bucket has a shorter TTL now.
func (h *hold) leaseExpired(err error) bool {
	return errors.Is(err, errGone) && time.Since(h.renewed) >= h.cfg.TTL
}

// renewFence compares the clock and raises hi. The fence is written even if hi stays as it is:
// that the write succeeds shows that nobody else has had the worker ID meanwhile.
func (h *hold) renewFence(ctx context.Context) error {
	read, err := h.clock.askServer(ctx)
	if err != nil {
		return err
	}
	if err := h.checkForward(ctx, read); err != nil {
		return err
	}
	if err := h.clock.checkDrift(ctx, read); err != nil {
		return err
	}
	// From the time that was just compared: a clock that is set a day ahead right
	// now must not give away that day.
	hi := h.cfg.Layout.TimestampAt(read.before) + h.cfg.units(fenceLength(h.cfg.TTL))
	return h.writeHi(ctx, max(hi, h.hi.Load())) // never lower, even if the clock was set back
}

// suspend stops the generator until a heartbeat has succeeded, which begins at once.
func (h *hold) suspend() {
	if h.gen == nil {
		return
	}
	h.jumpMu.Lock()
	h.jumps++
	h.gen.Suspend()
	h.jumpMu.Unlock()
	select {
	case h.woken <- struct{}{}:
	default: // one is due already
	}
}

// extend gives the generator the time that is known to be ours, unless the clock has jumped more than
// that often: then a copy may have used it since, and only a heartbeat that begins now would show that.
func (h *hold) extend(jumps int) {
	if h.gen == nil {
		return
	}
	h.jumpMu.Lock()
	defer h.jumpMu.Unlock()
	if h.settled = jumps; jumps == h.jumps {
		h.gen.Extend(h.hi.Load())
	}
}

// checkOthers makes sure that no other process that runs uses the worker ID or has used it from lo on,
// whatever the buckets say: they may have been put back to an older state. ErrLost says that one does.
// It asks after the claim was written, so of several claimers only one asks.
func (h *hold) checkOthers(ctx context.Context, lo int64) error {
	end, err := h.others.ask(ctx, h.lease.key, h.id)
	if err != nil || end <= lo {
		return err
	}
	h.cfg.Log.Error("claimed worker ID is in use",
		zap.String("worker_id", h.lease.key), zap.String("hint", "the buckets may have been restored to an older state"))
	return fmt.Errorf("%w: another process uses it", ErrLost)
}

// checkSameBucket makes sure that the clock bucket is the one that was admitted. A heartbeat
// need not look: only the bucket that was written at the claim has this hold's entry.
func (h *hold) checkSameBucket(ctx context.Context) error {
	identity, err := readIdentity(ctx, h.fence.bucket)
	if err == nil && identity != h.identity {
		err = fmt.Errorf("%w: identity of bucket %s changed from %.100q to %.100q",
			ErrClockLost, ClockBucketName(h.cfg.Prefix), h.identity, identity)
	}
	return err
}

// checkForward makes sure that the clock bucket has not gone back.
func (h *hold) checkForward(ctx context.Context, read reading) error {
	last, err := h.clock.checkForward(ctx, read, h.fence.reached)
	h.fence.reached = max(h.fence.reached, last)
	return err
}

// writeLease writes the lease, with the time of this clock.
func (h *hold) writeLease(ctx context.Context) error {
	number := newNonce()
	_, err := h.lease.write(ctx, number, h.leaseValue(number))
	return err
}

// recreateLease makes the lease again, which has expired. ErrLost says that somebody else was
// faster.
func (h *hold) recreateLease(ctx context.Context) error {
	number := newNonce()
	return h.lease.recreate(ctx, number, h.leaseValue(number))
}

func (h *hold) leaseValue(number string) []byte {
	return encode(leaseValue{
		Hold:     h.id,
		Instance: h.cfg.Instance,
		Host:     h.host,
		Since:    h.since,
		Clock:    h.clock.time().UnixMilli(),
		Layout:   h.cfg.Layout.String(),
		Write:    number,
		Seq:      h.fence.reached,
		Fence:    fenceLength(h.cfg.TTL).Milliseconds(),

		Installation: h.cfg.Installation,
	})
}

// writeHi writes hi to the clock bucket. If that fails, h.hi still is what is known for
// certain to be ours, which may have become more.
func (h *hold) writeHi(ctx context.Context, hi int64) error {
	number := newNonce()
	written, err := h.fence.write(ctx, number, encode(clockValue{Hi: hi, Hold: h.id, Write: number}))
	if written != nil {
		v, corrupt := decodeClock(record{key: h.fence.key, value: written})
		if corrupt != nil {
			return corrupt
		}
		h.hi.Store(v.Hi)
		h.extend(h.settled)
	}
	return h.checkBehind(err)
}

// maxBehind is how often in a row a fence may be refused and then read as it was before. Once
// may be a replica that lags behind a late write of ours.
const maxBehind = 3

// checkBehind makes an ErrClockLost of a fence that goes on being older than it was.
func (h *hold) checkBehind(err error) error {
	if !errors.Is(err, errBehind) || !errors.Is(err, errConflict) {
		h.behind = 0
		return err
	}
	if h.behind++; h.behind < maxBehind {
		return err
	}
	return fmt.Errorf("%w: fence of worker ID %s is older than revision %d: %w", ErrClockLost, h.fence.key, h.fence.revision, err)
}
