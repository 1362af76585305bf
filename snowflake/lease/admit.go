package lease

import (
	"context"
	"errors"
	"fmt"

	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
)

// The keys of the config bucket.
const (
	LayoutKey  = "layout"   // as text
	ClockIDKey = "clock_id" // the identity of the clock bucket
)

// admission is the result of admit's checks.
type admission struct {
	read   reading // of the clock
	ids    idTable
	leases []bucketEntry
	clocks kv.Position // of the clock bucket
}

// admit checks everything that has to be right before a worker ID is claimed.
func (m *Manager) admit(ctx context.Context, clock *ownClock) (admission, error) {
	read, err := clock.readServer(ctx)
	if err != nil {
		return admission{}, err
	}
	isNew, err := m.checkLayout(ctx, read)
	if err != nil {
		return admission{}, err
	}
	if err := m.adoptTTL(ctx); err != nil {
		return admission{}, err
	}
	if err := m.adoptOutage(ctx); err != nil {
		return admission{}, err
	}
	leases, err := m.workers.list(ctx)
	if err != nil {
		return admission{}, err
	}
	reached := m.fences.remembered(m.cfg.Layout, leases)
	installed, err := m.installedIdentity(ctx, read, reached, isNew)
	if err != nil {
		return admission{}, err
	}
	if isNew { // after the identity, which shows by the layout that it is the first
		if err := m.agreeOnLayout(ctx); err != nil {
			return admission{}, err
		}
	}
	entries, err := m.clocks.list(ctx)
	if err != nil {
		return admission{}, err
	}
	lost, _, err := lostOf(entries)
	if err != nil {
		return admission{}, err
	}
	known := kv.Position{ID: installed, Last: m.explain(lost, reached)}
	var back *ClockBackError
	clocks, contradiction := clock.checkBucket(ctx, m.clocks, known, read.last)
	switch {
	case contradiction == nil:
		m.reached = clocks.Last
	case errors.As(contradiction, &back):
		m.reached = known.Last // leases expire
	case !errors.Is(contradiction, ErrClockLost):
		return admission{}, contradiction
	} // else what leases record is about another bucket
	others, err := clock.peersOf(leases)
	if err != nil {
		return admission{}, err
	}
	if limit := m.cfg.MaxClockSkew; read.offServer(limit) || read.offPeers(others, limit) {
		return admission{}, skewError(read, others)
	}
	if err := m.noteLoss(ctx, read.before, known.Last, contradiction); err != nil {
		return admission{}, err
	}
	if epoch := m.cfg.Layout.TimeAt(0); read.before.Before(epoch) {
		return admission{}, epochError(epoch, read)
	}
	return admission{read, m.sortEntries(leases, entries, lost), leases, clocks}, nil
}

// checkLayout compares the layout with that of the installation, and reports
// whether it has none yet. A layout whose epoch is after now, by this clock and
// by the server's, does not become the installation's: that is permanent, and no
// ID could be made before the epoch.
func (m *Manager) checkLayout(ctx context.Context, read reading) (isNew bool, err error) {
	finding, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, known, err := m.config.Find(finding, LayoutKey)
	if err != nil {
		return false, err
	}
	if known {
		return false, m.compareLayout(found)
	}
	if epoch := m.cfg.Layout.TimeAt(0); read.isBefore(epoch.Add(-m.cfg.MaxClockSkew)) {
		return true, &NewEpochError{epochError(epoch, read)}
	}
	return true, nil
}

// agreeOnLayout makes the layout the installation's, unless another process was
// faster.
func (m *Manager) agreeOnLayout(ctx context.Context) error {
	found, err := m.agree(ctx, LayoutKey, m.cfg.Layout.String())
	if err != nil {
		return err
	}
	return m.compareLayout(found)
}

func (m *Manager) compareLayout(found string) error {
	if own := m.cfg.Layout.String(); found != own {
		return fmt.Errorf("%w: this worker has %s, the installation %.100q", ErrForeignLayout, own, found)
	}
	return nil
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
// installation's. In an installation that has a layout, an operator has decided
// so, after the bucket was lost, and has waited for the lower half.
func (m *Manager) installedIdentity(ctx context.Context, read reading, reached uint64, isNew bool) (string, error) {
	finding, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	installed, known, err := m.config.Find(finding, ClockIDKey)
	if err != nil || known {
		return installed, err
	}
	if lower, upper := m.lossWaits(); !isNew && upper > lower {
		if err := m.reserve(ctx, Lost{Upper: read.before.Add(upper), Seq: reached}); err != nil {
			return "", err
		}
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
		wait, _ := c.lossWaits()
		return known, clockLostError(c.cfg.Prefix, found.ID, known.ID, wait)
	case relation == kv.WentBack:
		return known, &ClockBackError{Last: found.Last, Known: known.Last}
	}
	known.Last = max(known.Last, found.Last)
	return known, nil
}
