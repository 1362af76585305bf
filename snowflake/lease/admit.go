package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/agreement"
)

// The keys of the config bucket.
const (
	layoutKey = "layout" // as text
	clockKey  = "clock"  // when the clock bucket was created
)

// admit checks everything that has to be right before a worker ID is claimed. It returns
// the reading of the clock that passed, and the leases that it found.
func (m *Manager) admit(ctx context.Context, clock *ownClock) (reading, []record, error) {
	if err := m.checkLayout(ctx); err != nil {
		return reading{}, nil, err
	}
	read, err := clock.askServer(ctx)
	if err != nil {
		return reading{}, nil, err
	}
	if err := m.checkCreated(ctx, read.created); err != nil {
		return reading{}, nil, err
	}
	leases, err := m.workers.list(ctx)
	if err != nil {
		return reading{}, nil, err
	}
	others, err := clock.peersOf(leases)
	if err != nil {
		return reading{}, nil, err
	}
	if limit := m.cfg.MaxClockSkew; read.offServer(limit) || read.offPeers(others, limit) {
		return reading{}, nil, skewError(read, others)
	}
	return read, leases, nil
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

// checkCreated makes sure that the clock bucket is the first one. One that was
// deleted and created again says that nothing was given away.
func (m *Manager) checkCreated(ctx context.Context, created time.Time) error {
	own := created.UTC().Format(time.RFC3339Nano)
	found, err := m.agree(ctx, clockKey, own)
	if err == nil && found != own {
		err = &ClockLostError{
			Created: own, Installed: found,
			StopFor: m.cfg.TTL + m.cfg.MaxAhead + m.cfg.MaxClockSkew,
			Bucket:  agreement.BucketName(m.cfg.Prefix), Key: clockKey,
		}
	}
	return err
}

// agreed is what all processes of the installation have agreed on, see package agreement.
type agreed interface {
	// Agree returns the value of a key; if it has none, own becomes it.
	Agree(ctx context.Context, key, own string) (string, error)
}

// agree asks for the value of a key that all have to have in common.
func (m *Manager) agree(ctx context.Context, key, own string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.config.Agree(ctx, key, own)
}
