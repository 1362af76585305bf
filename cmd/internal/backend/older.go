package backend

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/worker"
)

// CounterBucket is the bucket in which a store in JetStream counts. It is not made, and not
// served from if it is empty, where IDs must have been counted in it before. Who fills it with
// counters from elsewhere makes it with jetstreamstore.Create.
func CounterBucket(prefix messages.Prefix, replicas int) resource.Resource {
	return jetstreamstore.Bucket(prefix, replicas, countedBefore(prefix))
}

// countedBefore is the evidence that IDs were counted in JetStream. A loader writes down that
// the installation counts there once the bucket exists. And a tag gets into the directory after
// it got its counter; but in an installation that counts elsewhere, that was not in JetStream.
//
// Workers and leases are no evidence: there may be some before there is a loader.
func countedBefore(prefix messages.Prefix) resource.Evidence {
	return func(ctx context.Context, js jetstream.JetStream, missing bool) (string, error) {
		store, found, err := agreement.Lookup(ctx, js, prefix, agreement.StoreKey)
		switch {
		case err != nil || found && store != string(JetStream):
			return "", err
		case found && missing:
			return fmt.Sprintf("bucket %s says that it counts in %s", agreement.BucketName(prefix), store), nil
		}
		return resource.Entries(ctx, js, worker.TagsBucketName(prefix))
	}
}
