package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/agreement"
)

// OutageKey is the key of the config bucket with the installation's
// [OutageSetting]. Without it, fences are short, as in version 0.2.0.
const OutageKey = "outage"

// DefaultOutage is the declared outage of a new installation.
const DefaultOutage = time.Hour

// The bounds of an outage that is not 0. No fence is shorter than the least,
// and the worker ID of a process that crashed is blocked for as long.
const (
	minOutage = time.Minute
	maxOutage = 7 * 24 * time.Hour
)

// ErrOutage means that a declared outage is out of bounds, or cannot be read.
var ErrOutage = errors.New("lease: bad outage")

// OutageSetting is for how long an installation makes snowflake IDs without
// JetStream. As text it is a duration, as in "1h0m0s"; if it was longer before, the
// longest follows, as in "10m0s, longest 1h0m0s".
type OutageSetting struct {
	For time.Duration // 0: for no longer than the TTL of the leases

	// Longest is the longest that For ever was. A hold keeps the length of its
	// claim, so that the wait after a loss depends on this.
	Longest time.Duration
}

func (o OutageSetting) String() string {
	if o.Longest > o.For {
		return fmt.Sprintf("%v, longest %v", o.For, o.Longest)
	}
	return o.For.String()
}

// CheckOutage checks a declared outage: 0, or whole seconds from 1 minute to 7
// days. Its error is [ErrOutage].
func CheckOutage(d time.Duration) error {
	if d != 0 && (d < minOutage || d > maxOutage || d%time.Second != 0) {
		return fmt.Errorf("%w: %v, allowed is 0, or %v to %v in whole seconds", ErrOutage, d, minOutage, maxOutage)
	}
	return nil
}

// ParseOutage reads a value of [OutageKey]. Its error is [ErrOutage].
func ParseOutage(text string) (o OutageSetting, err error) {
	now, longest, lowered := strings.Cut(text, ", longest ")
	if o.For, err = time.ParseDuration(now); err == nil {
		o.Longest = o.For
		if lowered {
			o.Longest, err = time.ParseDuration(longest)
		}
	}
	if err != nil || CheckOutage(o.For) != nil || CheckOutage(o.Longest) != nil || o.Longest < o.For {
		return OutageSetting{}, fmt.Errorf("%w: key %s is %.40q", ErrOutage, OutageKey, text)
	}
	return o, nil
}

// DeclareOutage sets the installation's outage. It counts from the next claim
// of each process.
func DeclareOutage(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, d time.Duration) (OutageSetting, error) {
	if err := CheckOutage(d); err != nil {
		return OutageSetting{}, err
	}
	return editOutage(ctx, js, prefix, func(o OutageSetting, _ bool) OutageSetting { return OutageSetting{d, max(o.Longest, d)} })
}

// BeginOutage sets the outage of a new installation, unless it has one.
func BeginOutage(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, d time.Duration) error {
	config, err := agreement.Open(ctx, js, prefix)
	if err == nil {
		_, err = config.Agree(ctx, OutageKey, OutageSetting{d, d}.String())
	}
	return err
}

// RestoreOutage sets the outage of a backup, the value of [OutageKey]. If there
// is one, it stays, but for the longest, which becomes the longer of both.
func RestoreOutage(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, text string) error {
	backup, err := ParseOutage(text)
	if err != nil {
		return err
	}
	_, err = editOutage(ctx, js, prefix, func(o OutageSetting, known bool) OutageSetting {
		if known {
			return OutageSetting{o.For, max(o.Longest, backup.Longest)}
		}
		return backup
	})
	return err
}

// editOutage changes the installation's outage.
func editOutage(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, change func(o OutageSetting, known bool) OutageSetting) (o OutageSetting, err error) {
	config, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return o, err
	}
	err = config.Edit(ctx, OutageKey, func(have string, known bool) (string, error) {
		o = OutageSetting{}
		if known {
			if o, err = ParseOutage(have); err != nil {
				o = OutageSetting{Longest: maxOutage} // as long as it may have been
			}
		}
		o = change(o, known)
		return o.String(), nil
	})
	return o, err
}

// adoptOutage reads the outage for the next claim. One that is unreadable makes
// no long fences, and the longest waits.
func (m *Manager) adoptOutage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, known, err := m.config.Find(ctx, OutageKey)
	if err != nil {
		return err
	}
	found := OutageSetting{}
	if known {
		if found, err = ParseOutage(text); err != nil {
			found = OutageSetting{Longest: maxOutage}
			m.cfg.Log.Error("no long fences; idworker provision --outage sets the outage", zap.Error(err))
		}
	}
	m.outage = OutageSetting{found.For, max(found.Longest, m.outage.Longest)}
	return nil
}

// UpperHalf is the first worker ID of the upper half, whose fences may be as long
// as the declared outage. So at least half of all worker IDs are never blocked for
// longer than without an outage, however many processes crash. Configured worker
// IDs usually begin at 0, in the other half.
func UpperHalf(l snowflake.Layout) int64 {
	count := l.MaxWorkerID() + 1
	return count - count/2
}

// fenceOf is the length of a fence that is claimed now. A configured worker ID
// gets no long one: the process could not take another after a crash.
func (m *Manager) fenceOf(worker int64) time.Duration {
	if m.cfg.Worker == nil && worker >= UpperHalf(m.cfg.Layout) {
		return max(fenceLength(m.cfg.TTL), m.outage.For)
	}
	return fenceLength(m.cfg.TTL)
}
