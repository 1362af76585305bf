package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// hold is one holding of one worker ID, from claim to release.
type hold struct {
	worker int64
	key    string // of both entries
	id     string // marks the entries as ours
	gen    *snowflake.Generator
	clock  snowflake.Clock
	since  time.Time

	created time.Time // of the clock bucket

	// The revisions at which the entries are ours, as far as is known.
	leaseRevision, clockRevision uint64

	hi int64 // known for certain to be ours

	good     time.Time // when the last heartbeat that succeeded began
	outvoted bool      // the server's clock is off, and that was logged
}

// keep sends heartbeats until ctx ends or the worker ID is lost, and returns why.
func (m *Manager) keep(ctx context.Context, h *hold) error {
	next := h.good.Add(m.cfg.TTL / beatsPerTTL)
	for {
		pause(ctx, time.Until(next))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		expires := h.good.Add(m.cfg.TTL)
		err := m.beat(ctx, h, expires)
		switch {
		case err == nil:
			h.good, next = began, began.Add(m.cfg.TTL/beatsPerTTL)
		case final(err), ctx.Err() != nil:
			return err
		case !time.Now().Before(expires):
			return fmt.Errorf("%w: no heartbeat for %v: %w", ErrLost, m.cfg.TTL, err)
		default:
			next = time.Now().Add(m.cfg.TTL / retriesPerTTL)
		}
	}
}

// final reports whether trying again is no use.
func final(err error) bool {
	for _, e := range []error{ErrLost, ErrClockSkew, ErrForeignLayout, ErrClockLost} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// beat is one heartbeat. All of it has to succeed: a lease without time is of no use.
func (m *Manager) beat(ctx context.Context, h *hold, expires time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, expires)
	defer cancel()
	if err := m.writeLease(ctx, h); err != nil {
		return err
	}
	read, err := m.askServer(ctx, h.clock)
	if err != nil {
		return err
	}
	if err := m.sameBucket(h, read); err != nil {
		return err
	}
	if err := m.checkDrift(ctx, h, read); err != nil {
		return err
	}
	// From the time that was just compared: a clock that is set a day ahead right
	// now must not give away that day.
	hi := m.cfg.Layout.TimestampAt(read.before) + m.units(m.cfg.TTL)
	if hi <= h.hi { // the clock was set back
		return nil
	}
	err = m.writeHi(ctx, h, hi)
	h.gen.Extend(h.hi) // known to be ours, whatever else went wrong
	m.noteReserved(h)
	return err
}

// writeLease writes the lease at the revision that it is known to have.
func (m *Manager) writeLease(ctx context.Context, h *hold) error {
	value := encode(leaseEntry{
		Hold:     h.id,
		Instance: m.cfg.Instance,
		Host:     m.host,
		Since:    h.since,
		Clock:    clockTime(h.clock).UnixMilli(),
		Layout:   m.cfg.Layout.String(),
	})
	_, err := m.write(ctx, m.workers, h.key, value, &h.leaseRevision, func(r record) bool {
		e, err := decodeLease(r)
		return err == nil && e.Hold == h.id
	})
	return err
}

// writeHi writes hi at the revision that it is known to have. Where it fails, h.hi is
// still what is known for certain to be ours, which may have become more.
func (m *Manager) writeHi(ctx context.Context, h *hold, hi int64) error {
	value := encode(clockEntry{Hi: hi, Hold: h.id})
	written, err := m.write(ctx, m.clocks, h.key, value, &h.clockRevision, func(r record) bool {
		e, err := decodeClock(r)
		return err == nil && e.Hold == h.id
	})
	if written != nil {
		e, corrupt := decodeClock(record{key: h.key, value: written})
		if corrupt != nil {
			return corrupt
		}
		h.hi = e.Hi
	}
	return err
}

// errOlder: the entry is ours, but not what was just written.
var errOlder = errors.New("it was not written")

// write writes an entry, if it is still at that revision, and if that is not certain
// looks whose it is. It returns what is known to stand there and to be ours; and an
// error if that is not value: ErrLost if it is not ours.
func (m *Manager) write(ctx context.Context, b bucket, key string, value []byte, at *uint64, ours func(record) bool) ([]byte, error) {
	revision, err := m.update(ctx, b, key, value, *at)
	if err == nil {
		*at = revision
		return value, nil
	}
	found, readErr := m.get(ctx, b, key)
	switch {
	case errors.Is(readErr, errAbsent):
		return nil, fmt.Errorf("%w: %w, and then there was none", ErrLost, err)
	case readErr != nil:
		return nil, fmt.Errorf("%w, and then: %w", err, readErr)
	case !ours(found):
		return nil, fmt.Errorf("%w: %w: somebody else has it", ErrLost, err)
	}
	*at = found.revision
	if !bytes.Equal(found.value, value) {
		return found.value, fmt.Errorf("%w: %w", err, errOlder)
	}
	return value, nil
}
