package lease

import (
	"context"
	"fmt"
)

// The keys of the config bucket.
const (
	layoutKey  = "layout"   // as text
	clockIDKey = "clock_id" // the identity of the clock bucket
)

// admission is what was found when everything was right.
type admission struct {
	read     reading // of the clock
	leases   []record
	identity string // of the clock bucket
	reached  uint64 // by the stream of the clock bucket
}

// admit checks everything that has to be right before a worker ID is claimed.
func (m *Manager) admit(ctx context.Context, clock *ownClock) (admission, error) {
	if err := m.checkLayout(ctx); err != nil {
		return admission{}, err
	}
	if err := m.adoptTTL(ctx); err != nil {
		return admission{}, err
	}
	read, err := clock.askServer(ctx)
	if err != nil {
		return admission{}, err
	}
	identity, err := m.checkIdentity(ctx)
	if err != nil {
		return admission{}, err
	}
	leases, err := m.workers.list(ctx)
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
	m.longestFence = max(m.longestFence, longestFence(leases))
	known := max(m.reached, reachedBy(leases))
	last, err := clock.checkForward(ctx, read, known)
	m.reached = max(last, known)
	return admission{read, leases, identity, m.reached}, err
}

// checkLayout compares the layout with the one that the first worker has written.
func (m *Manager) checkLayout(ctx context.Context) error {
	own := m.cfg.Layout.String()
	found, err := m.agree(ctx, layoutKey, own)
	if err == nil && found != own {
		err = fmt.Errorf("%w: this worker has %s, the installation %.100q", ErrForeignLayout, own, found)
	}
	return err
}

// agreed is what all processes of the installation have agreed on, see package agreement.
type agreed interface {
	// Agree returns the value of a key; if it has none, own becomes it.
	Agree(ctx context.Context, key, own string) (string, error)

	// Find returns the value of a key, if it has one. A replica that lags may not know it.
	Find(ctx context.Context, key string) (value string, found bool, err error)
}

// agree asks for the value of a key that all have to have in common.
func (m *Manager) agree(ctx context.Context, key, own string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.config.Agree(ctx, key, own)
}

// find asks for the value of a key without writing one.
func (m *Manager) find(ctx context.Context, key string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.config.Find(ctx, key)
}
