package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/pause"
)

// identityKey is a key of the clock bucket: a random number that the first
// worker wrote. The config bucket repeats the installation's. It is an entry,
// and not part of the stream's configuration, because a bucket that is
// recreated from a file or template gets the same configuration, but no
// entries. Unlike the stream's creation time, it does not depend on the leader
// either.
const identityKey = "identity"

// A replica that lags may not have it yet.
const (
	identityAttempts = 10
	identityPause    = 50 * time.Millisecond
)

// readIdentity returns the identity of the clock bucket, empty if it has none.
func readIdentity(ctx context.Context, clocks bucket) (string, error) {
	for range identityAttempts {
		found, err := clocks.get(ctx, identityKey)
		if !errors.Is(err, errAbsent) {
			return string(found.value), err
		}
		pause.For(ctx, identityPause)
	}
	return "", ctx.Err()
}

// makeIdentity gives the clock bucket an identity, unless another process was
// faster, and returns the bucket's identity.
func makeIdentity(ctx context.Context, clocks bucket) (string, error) {
	own := newNonce()
	_, err := clocks.update(ctx, identityKey, []byte(own), 0)
	if errors.Is(err, errConflict) { // an operator's deletion left a marker
		err = replaceMarker(ctx, clocks, own, err)
	}
	if err == nil {
		return own, nil
	}
	found, readErr := readIdentity(ctx, clocks)
	if found == "" {
		return "", errors.Join(err, readErr)
	}
	return found, nil
}

// replaceMarker writes the identity over a deletion marker. Without a marker it
// returns otherwise.
func replaceMarker(ctx context.Context, clocks bucket, own string, otherwise error) error {
	all, err := clocks.list(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.key == identityKey && r.deleted {
			_, err := clocks.update(ctx, identityKey, []byte(own), r.revision)
			return err
		}
	}
	return otherwise
}

// checkIdentity makes sure that the clock bucket is the installation's, and
// returns its identity. A recreated bucket would show all time as free.
func (m *Manager) checkIdentity(ctx context.Context) (string, error) {
	installed, known, err := m.find(ctx, ClockIDKey)
	if err == nil && !known {
		installed, err = m.installIdentity(ctx)
	}
	if err != nil {
		return "", err
	}
	found, err := readIdentity(ctx, m.clocks)
	if err == nil && found != installed {
		err = &ClockLostError{Found: found, Installed: installed, StopFor: m.lossWait(), Bucket: agreement.BucketName(m.cfg.Prefix), Key: ClockIDKey}
	}
	return found, err
}

// installIdentity makes the clock bucket that is there the installation's, and
// returns the identity that the config bucket names then.
func (m *Manager) installIdentity(ctx context.Context) (string, error) {
	identity, err := makeIdentity(ctx, m.clocks)
	if err != nil {
		return "", err
	}
	m.cfg.Log.Info("clock bucket identity written", zap.String("identity", identity))
	return m.agree(ctx, ClockIDKey, identity)
}

// lossWait is the time after which all time that a lost entry gave away is
// past. A fence ends at most this long after its write, if the writer's clock
// was ahead and this clock is behind by as much as allowed. Fences depend on
// the TTL at their claim, so the longest counts.
func (m *Manager) lossWait() time.Duration {
	return max(fenceLength(m.cfg.TTL), m.longestFence) + m.cfg.MaxAhead + 2*m.cfg.MaxClockSkew
}

// checkForward makes sure that the clock bucket's stream has not regressed
// below known, and returns its last sequence. The error is a *ClockBackError.
func (c *ownClock) checkForward(ctx context.Context, read reading, known uint64) (uint64, error) {
	if read.last >= known {
		return read.last, nil
	}
	// Repeated, because known may be newer than the first answer.
	again, err := c.readServer(ctx)
	if err == nil && again.last < known {
		err = &ClockBackError{Last: again.last, Known: known}
	}
	return again.last, err
}

// reachedBy is the highest sequence of the clock bucket's stream in any lease.
// It is valid even if the lease has expired.
func reachedBy(leases []bucketEntry) (highest uint64) {
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil {
			highest = max(highest, v.Seq)
		}
	}
	return highest
}

// longestFence is the longest fence in any lease. Leases of older versions name
// none, or their TTL, which then is the length of their fence.
func longestFence(leases []bucketEntry) (longest time.Duration) {
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil {
			longest = max(longest, time.Duration(v.Fence)*time.Millisecond)
		}
	}
	return longest
}

// pauseClaims pauses claims after the clock bucket regressed, until all lost
// time is past.
func (m *Manager) pauseClaims(err error) {
	var back *ClockBackError
	if !errors.As(err, &back) || m.claimsPaused() != nil {
		return
	}
	m.regressedAt, m.regression, m.reached = time.Now(), err, 0
	m.cfg.Log.Error("clock bucket regressed, claims paused",
		zap.Duration("for", m.lossWait()), zap.Error(err))
}

// claimsPaused returns an error while another process may own time that the
// regressed clock bucket has lost.
func (m *Manager) claimsPaused() error {
	until := m.regressedAt.Add(m.lossWait())
	if m.regressedAt.IsZero() || !time.Now().Before(until) {
		return nil
	}
	return fmt.Errorf("claims are paused until %s: %w", until.UTC().Format(time.RFC3339), m.regression)
}
