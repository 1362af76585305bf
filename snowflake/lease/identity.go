package lease

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
)

// identityKey is a key of the clock bucket: the identity that the first worker
// wrote. The config bucket repeats the installation's. It is an entry, and not
// part of the stream's metadata as the register's, for two reasons. A bucket
// that is recreated from a file or template gets the same metadata, but no
// entries. And workers of version 0.1.0 read and make no other form.
const identityKey = "identity"

// newIdentity returns the text of a new identity: a random number. The identity
// of a bucket that took the place of a lost one adds the times before which no
// worker ID is claimed, in RFC 3339: of the lower half, a space, and of the upper
// half. Version 0.2.0 only compares the text.
func newIdentity(from Reserved) string {
	if from == (Reserved{}) {
		return newNonce()
	}
	return newNonce() + " " + from.Lower.UTC().Format(time.RFC3339Nano) + " " + from.Upper.UTC().Format(time.RFC3339Nano)
}

// Reserved is until when the worker IDs of the lower and of the upper half may
// still be in use by holders whose entries were lost. Zero times are in the
// past.
type Reserved struct{ Lower, Upper time.Time }

// reservedOf reads the times of an identity. An identity of another form has
// none.
func reservedOf(identity string) Reserved {
	_, times, _ := strings.Cut(identity, " ")
	lower, upper, _ := strings.Cut(times, " ")
	l, err1 := time.Parse(time.RFC3339Nano, lower)
	u, err2 := time.Parse(time.RFC3339Nano, upper)
	if err1 != nil || err2 != nil {
		return Reserved{}
	}
	return Reserved{l, u}
}

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

// makeIdentity gives the clock bucket an identity, unless it has one that
// reserves as much, and returns the bucket's identity.
func makeIdentity(ctx context.Context, clocks bucket, from Reserved) (string, error) {
	all, err := clocks.list(ctx)
	if err != nil {
		return "", err
	}
	var revision uint64
	for _, r := range all {
		if r.key != identityKey {
			continue
		}
		// Other processes may make it at the same time.
		if has := reservedOf(string(r.value)); !r.deleted && !has.Upper.Add(time.Minute).Before(from.Upper) {
			return string(r.value), nil
		}
		revision = r.revision
	}
	own := newIdentity(from)
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
// so, after the bucket was lost.
func (m *Manager) installedIdentity(ctx context.Context, read reading, isNew bool) (string, error) {
	finding, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	installed, known, err := m.config.Find(finding, ClockIDKey)
	if err != nil || known {
		return installed, err
	}
	var from Reserved
	// The operator has waited for the lower half.
	if lower, upper := m.lossWaits(); !isNew && upper > lower {
		from = Reserved{Lower: read.before, Upper: read.before.Add(upper)}
	}
	identity, err := makeIdentity(ctx, m.clocks, from)
	if err != nil {
		return "", err
	}
	m.cfg.Log.Info("clock bucket identity written", zap.String("identity", identity))
	return m.agree(ctx, ClockIDKey, identity)
}

// reserved are the ends of the halves' reserved time in the layout's time
// units, by the identity of the clock bucket, and by what this process knows.
func (m *Manager) reserved(installed string, read reading) (lower, upper int64) {
	from := reservedOf(installed)
	lower, upper = m.cfg.Layout.TimestampAt(from.Lower), m.cfg.Layout.TimestampAt(from.Upper)
	if _, wait := m.lossWaits(); !m.regressedAt.IsZero() {
		left := wait - time.Since(m.regressedAt)
		upper = max(upper, m.cfg.Layout.TimestampAt(read.before.Add(left)))
	}
	return lower, upper
}
