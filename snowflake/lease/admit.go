package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/position"
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
	clocks position.Position // of the clock bucket
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
	installed, known, err := m.findIdentity(ctx)
	if err != nil {
		return admission{}, err
	}
	m.remember(leases)
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
	if !known {
		if installed, err = m.decideIdentity(ctx, read, isNew); err != nil {
			return admission{}, err
		}
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
	again, err := m.readLost(ctx) // a list misses an entry that is being written again
	if err != nil {
		return admission{}, err
	}
	lost = lost.join(again)
	last, back := m.known.unexplained(lost)
	clocks, err := clock.checkBucket(ctx, m.clocks, position.Position{ID: installed, Last: last}, read.last)
	if err == nil && back {
		err = &ClockBackError{Last: read.last, Known: last}
	}
	if err == nil {
		m.known = knowledge{lost.Count: clocks.Last}
	}
	if err := m.noteLoss(ctx, read.before, err, nil); err != nil {
		return admission{}, err
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

	// Find returns the value of a key, if present.
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
// no entries. And workers of version 0.2.0 read and make no other form.
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

// findIdentity returns the identity of the clock bucket that the config bucket
// names, if any. It ends the memory of another bucket.
func (m *Manager) findIdentity(ctx context.Context) (installed string, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	installed, known, err = m.config.Find(ctx, ClockIDKey)
	if err == nil && installed != m.identity {
		m.identity, m.known = installed, make(knowledge)
	}
	return installed, known, err
}

// decideIdentity makes the clock bucket that is there the installation's. Unless
// the installation is new, an operator has decided so, after the bucket was lost,
// and has waited for the lower half.
func (m *Manager) decideIdentity(ctx context.Context, read reading, isNew bool) (string, error) {
	if !isNew {
		if err := m.recordDecision(ctx, read.before); err != nil {
			return "", err
		}
	}
	identity, err := makeIdentity(ctx, m.clocks)
	if err != nil {
		return "", err
	}
	m.cfg.Log.Info("clock bucket identity written", zap.String("identity", identity))
	installed, err := m.agree(ctx, ClockIDKey, identity)
	if err == nil {
		m.identity = installed
	}
	return installed, err
}

// checkBucket makes sure that the clock bucket is the known one, and has not
// regressed: a recreated bucket would show all time as free. Last is a sequence
// of its stream. It returns how far the bucket is known to have come. The error
// is a *ClockLostError or *ClockBackError.
func (c *ownClock) checkBucket(ctx context.Context, clocks bucket, known position.Position, last uint64) (position.Position, error) {
	identity, err := readIdentity(ctx, clocks)
	if err != nil {
		return known, err
	}
	return c.checkForward(ctx, known, position.Position{ID: identity, Last: last})
}

// checkForward is checkBucket for a position that was found. An identity that is
// unknown cannot be confirmed.
func (c *ownClock) checkForward(ctx context.Context, known, found position.Position) (position.Position, error) {
	relation := known.Judge(found)
	if relation == position.WentBack { // known may be newer than the answer
		again, err := c.readServer(ctx)
		if err != nil {
			return known, err
		}
		found.Last = again.last
		relation = known.Judge(found)
	}
	switch {
	case relation == position.Another, known.ID == "":
		wait, _ := c.lossWaits()
		return known, clockLostError(c.cfg.Prefix, found.ID, known.ID, wait)
	case relation == position.WentBack:
		return known, &ClockBackError{Last: found.Last, Known: known.Last}
	}
	known.Last = max(known.Last, found.Last)
	return known, nil
}
