package tags

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/messages"
)

// RaiseAlone is [RaiseAll] beside no other process, so it does not wait until
// loaders' permits have ended.
func RaiseAlone(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, r Raising) (target int64, err error) {
	k, err := askBuckets(ctx, js, prefix, r.clock())
	if err != nil {
		return 0, err
	}
	return r.raise(ctx, js, prefix, source, k, true)
}
