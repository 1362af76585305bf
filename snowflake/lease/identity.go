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

// identityKey is a key of the clock bucket: a random number that the first worker wrote. The
// config bucket says which one the installation's is. It is an entry like any other, and not
// part of the stream's configuration, because whatever creates a bucket again, from a file or a
// template, brings the configuration along but not the entries. It does not depend on who leads
// the stream either, as the time of creation does.
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

// makeIdentity gives the clock bucket an identity, unless somebody else is faster, and returns
// the one that it has.
func makeIdentity(ctx context.Context, clocks bucket) (string, error) {
	own := newNonce()
	_, err := clocks.update(ctx, identityKey, []byte(own), 0)
	if errors.Is(err, errConflict) { // one that was deleted by hand has left a marker
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

// replaceMarker writes the identity where a deleted one left a marker, or returns otherwise.
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

// checkIdentity makes sure that the clock bucket is the installation's, and returns its
// identity. One that was deleted and created again says that nothing was given away.
func (m *Manager) checkIdentity(ctx context.Context) (string, error) {
	installed, known, err := m.find(ctx, clockIDKey)
	if err == nil && !known {
		installed, err = m.installIdentity(ctx)
	}
	if err != nil {
		return "", err
	}
	found, err := readIdentity(ctx, m.clocks)
	if err == nil && found != installed {
		err = &ClockLostError{Found: found, Installed: installed, StopFor: m.quiet(), Bucket: agreement.BucketName(m.cfg.Prefix), Key: clockIDKey}
	}
	return found, err
}

// installIdentity makes the clock bucket that is there the installation's, and returns the
// identity that the config bucket names then.
func (m *Manager) installIdentity(ctx context.Context) (string, error) {
	identity, err := makeIdentity(ctx, m.clocks)
	if err != nil {
		return "", err
	}
	m.cfg.Log.Info("clock bucket identity written", zap.String("identity", identity))
	return m.agree(ctx, clockIDKey, identity)
}

// quiet is after how long no IDs can be in use any more whose time lies ahead of any clock:
// a fence reaches this far beyond the time at which it was written, if that clock was as far
// ahead as it may be, and another one may be as far behind. How far depends on the TTL that the
// bucket of leases had when a holder claimed its worker ID, so the longest fence counts.
func (m *Manager) quiet() time.Duration {
	return max(fenceLength(m.cfg.TTL), m.longestFence) + m.cfg.MaxAhead + 2*m.cfg.MaxClockSkew
}

// checkForward makes sure that the stream of the clock bucket has not lost what is known to have
// been in it, and returns its last sequence. The error is a *ClockBackError.
func (c *ownClock) checkForward(ctx context.Context, read reading, known uint64) (uint64, error) {
	if read.last >= known {
		return read.last, nil
	}
	// Asked again: what is known may be younger than the answer.
	again, err := c.askServer(ctx)
	if err == nil && again.last < known {
		err = &ClockBackError{Last: again.last, Known: known}
	}
	return again.last, err
}

// reachedBy is the highest sequence of the clock bucket's stream that any lease names. What it
// says is true, even if the lease itself has expired meanwhile.
func reachedBy(leases []record) (highest uint64) {
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil {
			highest = max(highest, v.Seq)
		}
	}
	return highest
}

// longestFence is the longest fence that any lease names. Holders of before name none, or their
// TTL, which is how far theirs reach.
func longestFence(leases []record) (longest time.Duration) {
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil {
			longest = max(longest, time.Duration(v.Fence)*time.Millisecond)
		}
	}
	return longest
}

// waitAfterLoss makes a Manager that saw that the clock bucket went back seek no worker ID until
// nobody can have any time that the bucket no longer knows of.
func (m *Manager) waitAfterLoss(err error) {
	var back *ClockBackError
	if !errors.As(err, &back) || m.mayBeForgotten() != nil {
		return
	}
	m.wentBack, m.wentBackErr, m.reached = time.Now(), err, 0
	m.cfg.Log.Error("clock bucket regressed, claims paused",
		zap.Duration("for", m.quiet()), zap.Error(err))
}

// mayBeForgotten returns an error while somebody may have time that the clock bucket, which
// went back, no longer knows of.
func (m *Manager) mayBeForgotten() error {
	until := m.wentBack.Add(m.quiet())
	if m.wentBack.IsZero() || !time.Now().Before(until) {
		return nil
	}
	return fmt.Errorf("claims are paused until %s: %w", until.UTC().Format(time.RFC3339), m.wentBackErr)
}
