package lease

import (
	"context"
	"errors"
	"fmt"
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
	if worker < firstLong(l) {
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

// pauseClaims pauses claims after the clock bucket regressed, until all lost
// time is past.
func (m *Manager) pauseClaims(err error, since time.Time) {
	var back *ClockBackError
	if !errors.As(err, &back) || m.claimsPaused() != nil {
		return
	}
	m.regressedAt, m.regression, m.reached = since, err, 0
	lower, upper := m.lossWaits()
	m.cfg.Log.Error("clock bucket regressed, claims paused",
		zap.Duration("for", lower), zap.Duration("upper_half_for", upper), zap.Error(err))
}

// claimsPaused returns an error while another process may own time of every
// worker ID that the regressed clock bucket has lost.
func (m *Manager) claimsPaused() error {
	wait, _ := m.lossWaits()
	until := m.regressedAt.Add(wait)
	if m.regressedAt.IsZero() || !time.Now().Before(until) {
		return nil
	}
	return fmt.Errorf("claims are paused until %s: %w", until.UTC().Format(time.RFC3339), m.regression)
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

// ReserveLost makes a clock bucket, whose entries may have been lost at that
// time or later than they were noted then, one from which no worker ID is claimed
// until all lost time is past. No process may hold one. It creates a missing
// bucket, unless that was agreed on: workers refuse it then.
func ReserveLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int, lost time.Time) error {
	lower, upper, err := lossWaits(ctx, js, prefix)
	if err != nil {
		return err
	}
	from := Reserved{Lower: lost.Add(lower), Upper: lost.Add(upper)}
	if time.Now().After(from.Upper) {
		return nil
	}
	missing, err := ClockLost(ctx, js, prefix)
	if err != nil {
		return err
	}
	_, known, err := agreement.Lookup(ctx, js, prefix, ClockIDKey)
	if err != nil || missing && known {
		return err
	}
	config, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return err
	}
	if err := clockBucket(prefix, replicas).Ensure(ctx, js); err != nil {
		return err
	}
	clocks, err := kv.Open(ctx, js, ClockBucketName(prefix))
	if err != nil {
		return err
	}
	// Between the two writes, no worker ID is claimed.
	identity := newIdentity(from)
	if err := config.Edit(ctx, ClockIDKey, func(string, bool) (string, error) { return identity, nil }); err != nil {
		return err
	}
	_, err = clocks.Edit(ctx, identityKey, func(kv.Entry) ([]byte, error) { return []byte(identity), nil })
	return err
}

// Waits returns until when worker IDs may still be in use by holders whose
// entries were lost, as the clock bucket's identity says.
func Waits(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (Reserved, error) {
	identity, _, err := agreement.Lookup(ctx, js, prefix, ClockIDKey)
	return reservedOf(identity), err
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
