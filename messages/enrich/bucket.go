package enrich

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
)

// Bucket is the bucket of records, with replicas copies, 1 to 5, odd.
func Bucket(prefix messages.Prefix, replicas int) kv.Resource {
	return kv.LastingBucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: how far each enrichment is", Replicas: replicas,
	})
}
