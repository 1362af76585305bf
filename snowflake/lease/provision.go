package lease

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// ClockBucketName is the name of the bucket that says up to when each worker ID's time has
// been given away.
func ClockBucketName(p messages.Prefix) string { return string(p) + "_clock" }

// WorkersBucketName is the name of the bucket in which worker IDs are leased.
func WorkersBucketName(p messages.Prefix) string { return string(p) + "_workers" }

// Resources are the three buckets, with replicas copies, 1 to 5, odd, and the TTL for the
// leases. The clock bucket is not made where one was agreed on, nor the config bucket where the
// clock bucket has entries: both were there.
func Resources(prefix messages.Prefix, ttl time.Duration, replicas int) []resource.Resource {
	return []resource.Resource{
		agreement.Bucket(prefix, replicas, resource.HasEntries(ClockBucketName(prefix))),
		resource.Bucket(jetstream.KeyValueConfig{
			Bucket: ClockBucketName(prefix), Description: "idworker: up to when the time of each worker ID is given away", Replicas: replicas,
		}, agreement.HasKey(prefix, clockIDKey)),
		resource.LeaseBucket(jetstream.KeyValueConfig{
			Bucket: WorkersBucketName(prefix), Description: "idworker: who leases which worker ID", Replicas: replicas, TTL: ttl,
		}),
	}
}

// Create creates the three buckets where they are missing, see [Resources]. What exists is
// left as it is; whether it is safe, [Open] finds out.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, ttl time.Duration, replicas int) error {
	if err := prefix.Check(); err != nil {
		return err
	}
	return resource.Ensure(ctx, js, Resources(prefix, ttl, replicas)...)
}
