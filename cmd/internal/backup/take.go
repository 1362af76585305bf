package backup

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
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
func Take(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, version string) (b Backup, err error) {
	b.Manifest = Manifest{Format: formatVersion, Version: version, Taken: time.Now(), Prefix: prefix}
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return b, err
	}
	b.Replicas = agreed.Replicas()
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
	b.List, b.Decisions, b.Floor = list, state.Decisions, max(floor, state.Floor, list.Floor)
	b.Installation, _, _ = strings.Cut(b.Config[agreement.InstallationKey], " ")
	if b.Installation == "" {
		return b, errNoID
	}
	if b.Config[register.ConfigKey] == "" { // no loader has run yet; one that runs later knows it
		b.Config[register.ConfigKey] = state.ID
	}
	bucket := enrich.BucketName(prefix)
	if !tags.Allowed(ctx, js, rights.Join(rights.ReadBucket(bucket), rights.WatchBucket(bucket))) {
		b.Unread = bucket
		return b, lacks
	}
	b.Enrichments, err = kv.Values(ctx, js, bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = nil
	}
	return b, cmp.Or(err, lacks)
}

var errNoID = problem.New(problem.NotProvisioned, "the installation has no ID yet")
