package lease

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/agreement"
)

// fences are the longest fences that holders are known to have had: of worker
// IDs of the lower half, and of all.
type fences struct{ lower, all time.Duration }

// add takes in the fence of a worker ID.
func (f *fences) add(l snowflake.Layout, worker int64, length time.Duration) {
	if worker < UpperHalf(l) {
		f.lower = max(f.lower, length)
	}
	f.all = max(f.all, length)
}

// remembered takes in the fences of all leases, and returns the highest sequence
// of the clock bucket's stream in them. Both are valid even if a lease has
// expired.
func (f *fences) remembered(l snowflake.Layout, leases []bucketEntry) (reached uint64) {
	for _, r := range leases {
		v, err := decodeLease(r)
		if err != nil {
			continue
		}
		_, worker, ok := parseKey(l, r.key)
		if !ok {
			worker = 0 // it counts in both halves
		}
		f.add(l, worker, time.Duration(v.Fence)*time.Millisecond)
		reached = max(reached, v.Seq)
	}
	return reached
}

// lossWaits is how long until every timestamp that lost entries had reserved is
// in the past, of the lower half of the worker IDs and of the upper. A fence ends
// at most this long after its write, if the writer's clock was ahead and this
// clock is behind by as much as allowed. Fences depend on the TTL and the outage
// at their claim, so the longest counts.
func (m *Manager) lossWaits() (lower, upper time.Duration) {
	margin := m.cfg.MaxAhead + 2*m.cfg.MaxClockSkew
	lower = max(fenceLength(m.cfg.TTL), m.fences.lower)
	return lower + margin, max(lower, m.fences.all, m.outage.Longest) + margin
}

// lostKey is a key of the clock bucket: what is known about entries that it has
// lost. Version 0.2.0 ignores it.
const lostKey = "lost"

// Lost says until when holders whose entries were lost may use their worker IDs.
type Lost struct {
	// The end for worker IDs of the lower half, and of the upper. A time in the
	// past, or zero, has no effect.
	Lower time.Time `json:"lower,omitzero"`
	Upper time.Time `json:"upper,omitzero"`

	// Seq is the highest sequence that the stream is known to have had. What
	// leases, or processes, remember up to it is explained.
	Seq uint64 `json:"seq,omitempty"`
}

// Of returns until when a worker ID may be in use.
func (l Lost) Of(layout snowflake.Layout, worker int64) time.Time {
	if worker >= UpperHalf(layout) {
		return l.Upper
	}
	return l.Lower
}

// join takes in another record. None of the fields ever falls.
func (l Lost) join(other Lost) Lost {
	if l.Lower.Before(other.Lower) {
		l.Lower = other.Lower
	}
	if l.Upper.Before(other.Upper) {
		l.Upper = other.Upper
	}
	l.Seq = max(l.Seq, other.Seq)
	return l
}

// lostOf returns the record among entries of the clock bucket, and its revision.
func lostOf(clocks []bucketEntry) (l Lost, revision uint64, err error) {
	for _, r := range clocks {
		if r.key != lostKey {
			continue
		}
		if !r.deleted && json.Unmarshal(r.value, &l) != nil {
			return Lost{}, r.revision, corrupt(r)
		}
		return l, r.revision, nil
	}
	return Lost{}, 0, nil
}

// explain returns how far the clock bucket is known to have come, by this
// process and by leases, but for what it is known to have lost.
func (m *Manager) explain(lost Lost, leases uint64) uint64 {
	m.forget(lost.Seq)
	if leases <= lost.Seq {
		return m.reached
	}
	return max(m.reached, leases)
}

// forget ends the memory of a sequence that is known to have been lost. Later,
// this process's own memory counts again, also below it.
func (m *Manager) forget(seq uint64) {
	if seq <= m.explained {
		return
	}
	if m.explained = seq; m.reached <= seq {
		m.reached = 0
	}
}

// noteLoss records that the clock bucket regressed, if err says so for the second
// time in a row: a leader that was deposed a moment ago may be wrong once. It had
// come as far as known, and this clock was right when it was now. It returns err,
// or why that was not recorded.
func (m *Manager) noteLoss(ctx context.Context, now time.Time, known uint64, err error) error {
	var replaced *ClockLostError
	if !errors.Is(err, ErrClockLost) || errors.As(err, &replaced) { // of a replaced bucket an operator decides
		m.regressed = false
		return err
	}
	if known <= m.explained {
		return err
	}
	if !m.regressed {
		m.regressed = true
		return err
	}
	leases, listErr := m.workers.list(ctx)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	known = max(known, m.fences.remembered(m.cfg.Layout, leases))
	lower, upper := m.lossWaits()
	return errors.Join(err, m.reserve(ctx, Lost{Lower: now.Add(lower), Upper: now.Add(upper), Seq: known}))
}

// reserve adds to the record of lost entries, unless that explains as much.
func (m *Manager) reserve(ctx context.Context, l Lost) error {
	clocks, err := m.clocks.list(ctx)
	if err != nil {
		return err
	}
	have, revision, err := lostOf(clocks)
	if err != nil {
		return err
	}
	if l.Seq == 0 || l.Seq > have.Seq {
		have = have.join(l)
		if _, err := m.clocks.update(ctx, lostKey, encode(have), revision); err != nil {
			return err
		}
		m.cfg.Log.Error("clock bucket lost entries, claims wait", zap.Time("lower_half_until", have.Lower), zap.Time("upper_half_until", have.Upper))
	}
	m.forget(have.Seq)
	return nil
}

// RestoreClock creates the clock bucket if it is missing. If the bucket is not
// that of the installation's config, the error is a [*ClockLostError]: no worker
// claims a worker ID until an operator has decided.
func RestoreClock(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	if err := clockBucket(prefix, replicas).Ensure(ctx, js); err != nil {
		return err
	}
	installed, known, err := agreement.Lookup(ctx, js, prefix, ClockIDKey)
	if err != nil || !known {
		return err
	}
	entries, err := kv.Values(ctx, js, ClockBucketName(prefix)) // an administrator has no right to read a single key
	found := entries[identityKey]
	if err != nil || (kv.Position{ID: installed}).Judge(kv.Position{ID: found}) == kv.Same {
		return err
	}
	wait, _, err := lossWaits(ctx, js, prefix)
	if err != nil {
		return err
	}
	return clockLostError(prefix, found, installed, wait)
}

// ClockLost reports whether the clock bucket is missing.
func ClockLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (bool, error) {
	_, err := js.Stream(ctx, kv.StreamName(ClockBucketName(prefix)))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return true, nil
	}
	return false, err
}

// ReserveLost records that the clock bucket may have lost entries which were noted
// at that time, or before: no worker ID is claimed until the time that they may
// have reserved is past. It creates a missing bucket, unless that was agreed on:
// workers refuse it then.
func ReserveLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int, noted time.Time) error {
	lower, upper, err := lossWaits(ctx, js, prefix)
	if err != nil {
		return err
	}
	missing, err := ClockLost(ctx, js, prefix)
	if err != nil {
		return err
	}
	if _, known, err := agreement.Lookup(ctx, js, prefix, ClockIDKey); err != nil || missing && known {
		return err
	}
	if err := clockBucket(prefix, replicas).Ensure(ctx, js); err != nil {
		return err
	}
	clocks, err := kv.Open(ctx, js, ClockBucketName(prefix))
	if err != nil {
		return err
	}
	_, err = clocks.Edit(ctx, lostKey, func(e kv.Entry) ([]byte, error) {
		have := Lost{}
		if e.Exists() {
			if have, _, err = lostOf([]bucketEntry{bucketEntryOf(e)}); err != nil {
				return nil, err
			}
		}
		return encode(have.join(Lost{Lower: noted.Add(lower), Upper: noted.Add(upper)})), nil
	})
	return err
}

// Waits returns until when holders whose entries were lost may use their worker
// IDs.
func Waits(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (Lost, error) {
	clocks, err := listBucket(ctx, js, ClockBucketName(prefix))
	if err != nil {
		return Lost{}, err
	}
	lost, _, err := lostOf(clocks)
	return lost, err
}

// lossWaits is [Manager.lossWaits] for workers with the default --max-ahead and
// --max-clock-skew.
func lossWaits(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (lower, upper time.Duration, err error) {
	m := Manager{cfg: Config{}.withDefaults()}
	if text, known, err := agreement.Lookup(ctx, js, prefix, LayoutKey); err != nil {
		return 0, 0, err
	} else if known {
		m.cfg.Layout, _ = snowflake.ParseLayout(text) // unreadable: all fences count in both halves
	}
	if text, known, err := agreement.Lookup(ctx, js, prefix, OutageKey); err != nil {
		return 0, 0, err
	} else if known {
		if m.outage, err = ParseOutage(text); err != nil {
			m.outage.Longest = maxOutage
		}
	}
	bucket, err := js.Stream(ctx, kv.StreamName(WorkersBucketName(prefix)))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, 0, err
	}
	if err == nil {
		leases, err := listBucket(ctx, js, WorkersBucketName(prefix))
		if err != nil {
			return 0, 0, err
		}
		m.cfg.TTL = bucket.CachedInfo().Config.MaxAge
		m.fences.remembered(m.cfg.Layout, leases)
	}
	lower, upper = m.lossWaits()
	return lower, upper, nil
}
