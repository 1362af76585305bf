package lease

import (
	"context"
	"fmt"
)

// The keys of the config bucket.
const (
	LayoutKey  = "layout"   // as text
	ClockIDKey = "clock_id" // the identity of the clock bucket
)

// admission is the result of admit's checks.
type admission struct {
	read     reading // of the clock
	leases   []bucketEntry
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
	read, err := clock.readServer(ctx)
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

// checkLayout compares the layout with that of the installation.
func (m *Manager) checkLayout(ctx context.Context) error {
	own := m.cfg.Layout.String()
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

// find returns the value of a key without writing it.
func (m *Manager) find(ctx context.Context, key string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.config.Find(ctx, key)
}
