package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// The keys of the config bucket.
const (
	LayoutKey  = "layout"   // as text
	ClockIDKey = "clock_id" // the identity of the clock bucket
)

// admission is the result of admit's checks.
type admission struct {
	read   reading // of the clock
	leases []bucketEntry
	clocks kv.Position // of the clock bucket
}

// admit checks everything that has to be right before a worker ID is claimed.
func (m *Manager) admit(ctx context.Context, clock *ownClock) (admission, error) {
	read, err := clock.readServer(ctx)
	if err != nil {
		return admission{}, err
	}
	if err := m.checkLayout(ctx, read); err != nil {
		return admission{}, err
	}
	if err := m.adoptTTL(ctx); err != nil {
		return admission{}, err
	}
	installed, err := m.installedIdentity(ctx)
	if err != nil {
		return admission{}, err
	}
	leases, err := m.workers.list(ctx)
	if err != nil {
		return admission{}, err
	}
	fence, reached := remembered(leases)
	m.longestFence = max(m.longestFence, fence)
	clocks, err := clock.checkBucket(ctx, m.clocks, kv.Position{ID: installed, Last: max(m.reached, reached)}, read.last)
	if !errors.Is(err, ErrClockLost) { // or what leases record is about another bucket
		m.reached = clocks.Last
	}
	if err != nil {
		return admission{}, err
	}
	others, err := clock.peersOf(leases)
	if err != nil {
		return admission{}, err
	}
	if limit := m.cfg.MaxClockSkew; read.offServer(limit) || read.offPeers(others, limit) {
		return admission{}, skewError(read, others)
	}
	if epoch := m.cfg.Layout.TimeAt(0); read.before.Before(epoch) {
		return admission{}, epochError(epoch, read)
	}
	return admission{read, leases, clocks}, nil
}

// checkLayout compares the layout with that of the installation. A layout whose
// epoch is after now, by this clock and by the server's, does not become the
// installation's: that is permanent, and no ID could be made before the epoch.
func (m *Manager) checkLayout(ctx context.Context, read reading) error {
	own := m.cfg.Layout.String()
	if epoch := m.cfg.Layout.TimeAt(0); read.isBefore(epoch.Add(-m.cfg.MaxClockSkew)) {
		finding, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, known, err := m.config.Find(finding, LayoutKey)
		if err != nil {
			return err
		}
		if !known {
			return &NewEpochError{epochError(epoch, read)}
		}
	}
	found, err := m.agree(ctx, LayoutKey, own)
	if err == nil && found != own {
		err = fmt.Errorf("%w: this worker has %s, the installation %.100q", ErrForeignLayout, own, found)
	}
	return err
}

// agreed reads and writes values that all processes of the installation share,
// see package agreement.
type agreed interface {
	// Agree returns the value of a key, after setting it to own if it has none.
	Agree(ctx context.Context, key, own string) (string, error)

	// Find returns the value of a key, if present. A lagging replica may miss
	// it.
	Find(ctx context.Context, key string) (value string, found bool, err error)
}

// agree returns the value of a key, after setting it to own if it has none.
func (m *Manager) agree(ctx context.Context, key, own string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.config.Agree(ctx, key, own)
}

// identityKey is a key of the clock bucket: a random number that the first
// worker wrote. The config bucket repeats the installation's. It is an entry,
// and not part of the stream's metadata as the register's, for two reasons. A
// bucket that is recreated from a file or template gets the same metadata, but
// no entries. And workers of version 0.1.0 read and make no other form.
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
	all, err := clocks.list(ctx)
	if err != nil {
		return "", err
	}
	var revision uint64
	for _, r := range all {
		if r.key == identityKey && r.deleted { // by an operator
			revision = r.revision
		}
	}
	own := newNonce()
	if _, err = clocks.update(ctx, identityKey, []byte(own), revision); err == nil {
		return own, nil
	}
	found, readErr := readIdentity(ctx, clocks)
	if found == "" {
		return "", errors.Join(err, readErr)
	}
	return found, nil
}

// installedIdentity returns the identity of the clock bucket that the config
// bucket names. If it names none, the clock bucket that is there becomes the
// installation's.
func (m *Manager) installedIdentity(ctx context.Context) (string, error) {
	finding, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	installed, known, err := m.config.Find(finding, ClockIDKey)
	if err != nil || known {
		return installed, err
	}
	identity, err := makeIdentity(ctx, m.clocks)
	if err != nil {
		return "", err
	}
	m.cfg.Log.Info("clock bucket identity written", zap.String("identity", identity))
	return m.agree(ctx, ClockIDKey, identity)
}

// checkBucket makes sure that the clock bucket is the known one, and has not
// regressed: a recreated bucket would show all time as free. Last is a sequence
// of its stream. It returns how far the bucket is known to have come. The error
// is a *ClockLostError or *ClockBackError.
func (c *ownClock) checkBucket(ctx context.Context, clocks bucket, known kv.Position, last uint64) (kv.Position, error) {
	identity, err := readIdentity(ctx, clocks)
	if err != nil {
		return known, err
	}
	return c.checkForward(ctx, known, kv.Position{ID: identity, Last: last})
}

// checkForward is checkBucket for a position that was found. An identity that is
// unknown cannot be confirmed.
func (c *ownClock) checkForward(ctx context.Context, known, found kv.Position) (kv.Position, error) {
	relation := known.Judge(found)
	if relation == kv.WentBack { // known may be newer than the answer
		again, err := c.readServer(ctx)
		if err != nil {
			return known, err
		}
		found.Last = again.last
		relation = known.Judge(found)
	}
	switch {
	case relation == kv.Another, known.ID == "":
		return known, clockLostError(c.cfg.Prefix, found.ID, known.ID, c.lossWait())
	case relation == kv.WentBack:
		return known, &ClockBackError{Last: found.Last, Known: known.Last}
	}
	known.Last = max(known.Last, found.Last)
	return known, nil
}

// remembered returns the longest fence in any lease, and the highest sequence of
// the clock bucket's stream. Both are valid even if the lease has expired.
func remembered(leases []bucketEntry) (fence time.Duration, reached uint64) {
	for _, r := range leases {
		if v, err := decodeLease(r); err == nil {
			fence, reached = max(fence, time.Duration(v.Fence)*time.Millisecond), max(reached, v.Seq)
		}
	}
	return fence, reached
}

// lossWait is how long until every timestamp that a lost entry had reserved is
// in the past. A fence ends at most this long after its write, if the writer's
// clock was ahead and this clock is behind by as much as allowed. Fences depend
// on the TTL at their claim, so the longest counts.
func (m *Manager) lossWait() time.Duration {
	return max(fenceLength(m.cfg.TTL), m.longestFence) + m.cfg.MaxAhead + 2*m.cfg.MaxClockSkew
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
	wait, err := LossWait(ctx, js, prefix)
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

// LossWait is how long after the last write to a lost clock bucket the time that
// it had reserved ends, for workers with the default --max-ahead and
// --max-clock-skew.
func LossWait(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (time.Duration, error) {
	m := Manager{cfg: Config{}.withDefaults()}
	bucket, err := js.Stream(ctx, kv.StreamName(WorkersBucketName(prefix)))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return m.lossWait(), nil
	}
	if err != nil {
		return 0, err
	}
	leases, err := listBucket(ctx, js, WorkersBucketName(prefix))
	if err != nil {
		return 0, err
	}
	m.cfg.TTL = bucket.CachedInfo().Config.MaxAge
	m.longestFence, _ = remembered(leases)
	return m.lossWait(), nil
}
