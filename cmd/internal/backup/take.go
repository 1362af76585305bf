package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
)

// Take reads the backup of a running installation, with rights to read only.
// Processes may grant at the same time: a list that is newer than an entry only
// helps. An error that wraps store.ErrCorrupt names tags that the backup lacks.
// The register must not have regressed.
//
// The time of the backup is the NATS server's, as that of all entries is. A
// machine whose clock differs gets an [ErrClock]: a restore can tell no more which
// of the two was right.
func Take(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, version string) (b Backup, err error) {
	return take(ctx, js, prefix, source, version, time.Now)
}

func take(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, version string, now func() time.Time) (b Backup, err error) {
	before := now()
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return b, err
	}
	b.Manifest = Manifest{Format: formatVersion, Version: version, Taken: agreed.ServerTime(), Prefix: prefix, Replicas: agreed.Replicas()}
	if err := checkClock(b.Taken, before, now()); err != nil {
		return b, err
	}
	state, err := register.Look(ctx, js, prefix)
	if err != nil {
		return b, err
	}
	t, err := tags.Open(ctx, js, prefix, source)
	if err != nil {
		return b, err
	}
	defer t.Close()
	list, lacks := t.Export(ctx)
	if lacks != nil && !errors.Is(lacks, store.ErrCorrupt) {
		return b, lacks
	}
	floor, err := agreement.Floor(ctx, js, prefix)
	if err == nil {
		b.Config, err = kv.Values(ctx, js, agreement.BucketName(prefix))
	}
	if err != nil {
		return b, err
	}
	delete(b.Config, agreement.ProofKey)
	b.List, b.Decisions, b.Floor = list, state.Decisions, max(floor, state.Floor, list.Floor)
	b.Installation, _, _ = strings.Cut(b.Config[agreement.InstallationKey], " ")
	if b.Installation == "" {
		return b, errNoID
	}
	if b.Config[register.ConfigKey] == "" { // no loader has run yet; one that runs later knows it
		b.Config[register.ConfigKey] = state.ID
	}
	bucket := enrich.BucketName(prefix)
	if !natsconn.Allowed(ctx, js, rights.Join(rights.ReadBucket(bucket), rights.WatchBucket(bucket))) {
		b.Unread = bucket
		return b, lacks
	}
	b.Enrichments, err = kv.Values(ctx, js, bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = nil
	}
	return b, cmp.Or(err, lacks)
}

// checkClock compares the server's time with this machine's clock before and
// after the request.
func checkClock(server, before, after time.Time) error {
	here := before
	if server.After(after) {
		here = after
	}
	if (server.After(after) || server.Before(before)) && server.Sub(here).Abs() > MaxClockDiff {
		return fmt.Errorf("%w: %s", ErrClock, Differ(here, "this machine", server, "the NATS server"))
	}
	return nil
}

// MaxClockDiff bounds the difference between the clocks at hand. A known time
// that is less than that ahead of them is no time from the future.
const MaxClockDiff = 10 * time.Second

// Differ describes two clocks that differ.
func Differ(a time.Time, of string, b time.Time, of2 string) string {
	return fmt.Sprintf("clocks differ by %v: it is %s by that of %s, %s by that of %s (UTC); set them right",
		b.Sub(a).Abs().Round(time.Second), a.UTC().Format(time.DateTime), of, b.UTC().Format(time.DateTime), of2)
}

// ErrClock means that this machine's clock and the NATS server's differ.
var ErrClock = problem.New(problem.Invalid, "no backup without the right time")

var errNoID = problem.New(problem.NotProvisioned, "the installation has no ID yet")
