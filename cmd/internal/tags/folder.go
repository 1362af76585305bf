package tags

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/ledger"
)

// DefaultStep is that of a tag that is created without one.
const DefaultStep = 1000

// Witnessed are the buckets in an embedded server that its witness watches: all in which
// something is counted or agreed on.
func Witnessed(prefix messages.Prefix, source backend.Backend) []string {
	buckets := []string{agreement.BucketName(prefix), lease.ClockBucketName(prefix)}
	return append(buckets, source.Buckets(prefix)...)
}

// RaiseFolder raises every tag in the data folder of an embedded server that does not run by
// n above where it is, or above where the witness saw it, and reports each by name. Then it has
// the witness take the folder for what it is now. It returns the folder's path.
func RaiseFolder(ctx context.Context, at embedded.Config, prefix messages.Prefix, source backend.Backend, n int64, report func(store.Tag)) (string, error) {
	at.Recover = true
	server, err := embedded.Start(ctx, at)
	if err != nil {
		return "", err
	}
	defer server.Stop()
	conn, js, err := server.Connect()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	lost, err := server.Lost(ctx)
	if err != nil {
		return "", err
	}
	raised, err := raiseLost(ctx, js, prefix, source, lost, n)
	slices.SortFunc(raised, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	for _, tag := range raised {
		report(tag)
	}
	if err != nil {
		return "", err
	}
	return server.Folder(), server.Renew(ctx, Witnessed(prefix, source))
}

// raiseLost raises all tags of a store, and those that were lost.
func raiseLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, lost *witness.ForgotError, n int64) ([]store.Tag, error) {
	create := ledger.CreateAgain // the bucket may be among what is lost
	if source.Kind() == backend.JetStream {
		create = jetstreamstore.Create
	}
	if err := create(ctx, js, prefix, 1); err != nil {
		return nil, err
	}
	segments, err := source.Open(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	defer func() { _ = segments.Close() }() // all answers are in
	if err := segments.RestoreLedger(ctx); err != nil {
		return nil, err
	}
	if err := raiseTemplates(ctx, js, prefix, n); err != nil {
		return nil, err
	}
	var losses []witness.Loss
	if lost != nil {
		losses = lost.Losses
	}
	raised, err := witness.RaiseAll(ctx, segments, losses, n, DefaultStep)
	if err != nil {
		return raised, err
	}
	return raised, segments.Accept(ctx)
}

// raiseTemplates has the tags that templates will make begin n IDs later.
func raiseTemplates(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, n int64) error {
	editor, err := tagrules.OpenEditor(ctx, js, prefix)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil // and so there are none
	}
	if err == nil {
		_, _, err = editor.RaiseFirst(ctx, func(t tagrules.Template) int64 { return store.Beyond(t.FirstID(), n) })
	}
	return err
}
