package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/position"
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

// addAll takes in the fences of all leases, which are valid even if a lease has
// expired.
func (f *fences) addAll(l snowflake.Layout, leases []bucketEntry) {
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil {
			_, worker, ok := parseKey(l, r.key)
			if !ok {
				worker = 0 // it counts in both halves
			}
			f.add(l, worker, time.Duration(v.Fence)*time.Millisecond)
		}
	}
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

	// Count rises with each loss. A sequence of the stream belongs to the count
	// that was valid when it was seen.
	Count uint64 `json:"count,omitempty"`

	// Seq is the highest sequence that the stream is known to have had before
	// the latest loss.
	Seq uint64 `json:"seq,omitempty"`
}

// knowledge is how far the clock bucket's stream is known to have come: the
// highest sequence, by the count of losses that was valid then.
type knowledge map[uint64]uint64

func (k knowledge) note(count, seq uint64) { k[count] = max(k[count], seq) }

// explains reports whether the loss that is recorded is why the stream is below a
// sequence.
func (l Lost) explains(count, seq uint64) bool { return count < l.Count && seq <= l.Seq }

// unexplained returns the highest sequence that the stream must have reached, and
// whether a record with a higher count was lost.
func (k knowledge) unexplained(l Lost) (last uint64, back bool) {
	for count, seq := range k {
		if back = back || count > l.Count; !l.explains(count, seq) {
			last = max(last, seq)
		}
	}
	return last, back
}

// Of returns until when a worker ID may be in use.
func (l Lost) Of(layout snowflake.Layout, worker int64) time.Time {
	if worker >= UpperHalf(layout) {
		return l.Upper
	}
	return l.Lower
}

// join takes in another record. No field falls.
func (l Lost) join(other Lost) Lost {
	if l.Lower.Before(other.Lower) {
		l.Lower = other.Lower
	}
	if l.Upper.Before(other.Upper) {
		l.Upper = other.Upper
	}
	l.Count, l.Seq = max(l.Count, other.Count), max(l.Seq, other.Seq)
	return l
}

// lostOf returns the record among entries of the clock bucket, and its revision.
func lostOf(clocks []bucketEntry) (l Lost, revision uint64, err error) {
	for _, r := range clocks {
		if r.key != lostKey {
			continue
		}
		if !r.deleted && json.Unmarshal(r.value, &l) != nil {
			return Lost{}, r.revision, fmt.Errorf("%w; delete it once all workers have been stopped for the longest declared outage", corrupt(r))
		}
		return l, r.revision, nil
	}
	return Lost{}, 0, nil
}

// remember takes in what leases show.
func (m *Manager) remember(leases []bucketEntry) {
	m.fences.addAll(m.cfg.Layout, leases)
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil && v.Seq > 0 {
			m.known.note(v.Losses, v.Seq)
		}
	}
}

// noteLoss takes in whether a look at the clock bucket shows that it regressed,
// and returns err. This clock was right when it was now; own is an entry of a hold
// of this process, if it has one. From the first time on, this process's claims
// wait; from the second time in a row on, those of all processes do: a leader that
// was deposed a moment ago may be wrong once.
func (m *Manager) noteLoss(ctx context.Context, now time.Time, err error, own *ownEntry) error {
	var replaced *ClockLostError
	if !errors.Is(err, ErrClockLost) || errors.As(err, &replaced) { // of a replaced bucket an operator decides
		m.regressed = false
		return err
	}
	have, readErr := m.readLost(ctx)
	if last, back := m.known.unexplained(have); readErr != nil || last == 0 && !back {
		return errors.Join(err, readErr)
	}
	// Holders may have claimed with longer fences since this process did.
	if waitErr := errors.Join(m.adoptOutage(ctx), m.noteTTL(ctx)); waitErr != nil {
		return errors.Join(err, waitErr)
	}
	lower, upper := m.lossWaits()
	m.lost = m.lost.join(Lost{Lower: now.Add(lower), Upper: now.Add(upper)})
	if !m.regressed {
		m.regressed = true
		return err
	}
	return errors.Join(err, m.record(ctx, m.lost, func(entries []bucketEntry) bool { return own != nil && own.lostIn(entries) }))
}

// recordDecision records until when the upper half waits after an operator's
// decision, unless the record waits as long.
func (m *Manager) recordDecision(ctx context.Context, now time.Time) error {
	have, err := m.readLost(ctx)
	if err != nil {
		return err
	}
	want := Lost{}
	if lower, upper := m.lossWaits(); upper > lower {
		want.Upper = now.Add(upper)
	}
	last, _ := m.known.unexplained(have)
	if last == 0 && !have.Upper.Add(time.Minute).Before(want.Upper) {
		return nil
	}
	return m.record(ctx, want, func([]bucketEntry) bool { return true })
}

// lostIn reports whether a list lacks the entry, or shows an older one. A deletion
// by an operator has a higher revision.
func (e *ownEntry) lostIn(entries []bucketEntry) bool {
	i := slices.IndexFunc(entries, func(r bucketEntry) bool { return r.key == e.key })
	return i < 0 || entries[i].revision < e.revision
}

// record adds a loss to the record of the clock bucket, with all sequences that
// this process has seen, if the bucket has not reached them, or lacks an entry.
func (m *Manager) record(ctx context.Context, l Lost, lacks func([]bucketEntry) bool) error {
	clocks, err := m.clocks.list(ctx)
	if err != nil {
		return err
	}
	have, revision, err := lostOf(clocks)
	if err != nil {
		return err
	}
	last, back := m.known.unexplained(have)
	highest := uint64(0)
	for _, r := range clocks {
		highest = max(highest, r.revision)
	}
	if last <= highest && !back && !lacks(clocks) {
		return nil
	}
	l = have.join(l)
	for count, seq := range m.known { // of the same loss, other processes make the same count
		l = l.join(Lost{Count: count + 1, Seq: seq})
	}
	if _, err := m.clocks.update(ctx, lostKey, encode(l), revision); err != nil {
		return err
	}
	m.cfg.Log.Error("clock bucket lost entries, claims wait", zap.Time("lower_half_until", l.Lower), zap.Time("upper_half_until", l.Upper))
	return nil
}

// readLost reads the record of the clock bucket from any replica.
func (m *Manager) readLost(ctx context.Context) (Lost, error) {
	found, err := m.clocks.get(ctx, lostKey)
	if errors.Is(err, errAbsent) {
		return Lost{}, nil
	}
	if err != nil {
		return Lost{}, err
	}
	lost, _, err := lostOf([]bucketEntry{found})
	return lost, err
}

// RestoreClock creates the clock bucket if it is missing. If the bucket is not
// that of the installation's config, the error is a [*ClockLostError]: no worker
// claims a worker ID until an operator has decided.
func RestoreClock(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	if err := clockBucket(prefix, replicas).Ensure(ctx, js); err != nil {
		return err
	}
	clocks, err := listBucket(ctx, js, ClockBucketName(prefix), kv.ByConsumer) // an administrator has no right to read a single key
	if err != nil {
		return err
	}
	return checkIdentity(ctx, js, prefix, kv.ByConsumer, clocks)
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
	lower, upper, err := lossWaits(ctx, js, prefix, kv.ByConsumer)
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
// IDs. The error is a [*ClockLostError] if the bucket is not that of the
// installation's config.
func Waits(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, way kv.Way) (Lost, error) {
	clocks, err := listBucket(ctx, js, ClockBucketName(prefix), way)
	if err != nil {
		return Lost{}, err
	}
	lost, _, err := lostOf(clocks)
	return lost, errors.Join(err, checkIdentity(ctx, js, prefix, way, clocks))
}

// checkIdentity compares the identity among the clock bucket's entries with the
// installation's.
func checkIdentity(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, way kv.Way, clocks []bucketEntry) error {
	installed, known, err := agreement.Lookup(ctx, js, prefix, ClockIDKey)
	if err != nil || !known {
		return err
	}
	found := ""
	for _, r := range clocks {
		if r.key == identityKey && !r.deleted {
			found = string(r.value)
		}
	}
	if (position.Position{ID: installed}).Judge(position.Position{ID: found}) == position.Same {
		return nil
	}
	wait, _, err := lossWaits(ctx, js, prefix, way)
	if err != nil {
		return err
	}
	return clockLostError(prefix, found, installed, wait)
}

// lossWaits is [Manager.lossWaits] for workers with the default --max-ahead and
// --max-clock-skew.
func lossWaits(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, way kv.Way) (lower, upper time.Duration, err error) {
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
		leases, err := listBucket(ctx, js, WorkersBucketName(prefix), way)
		if err != nil {
			return 0, 0, err
		}
		m.cfg.TTL = bucket.CachedInfo().Config.MaxAge
		m.fences.addAll(m.cfg.Layout, leases)
	}
	lower, upper = m.lossWaits()
	return lower, upper, nil
}
