package enrich

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
)

// BucketConfig is the configuration of the bucket of records, with 1 to 5 replicas.
func BucketConfig(prefix messages.Prefix, replicas int) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket:      prefix.EnrichBucket(),
		Description: "idworker: how far each enrichment is",
		Storage:     jetstream.FileStorage,
		Replicas:    replicas,
	}
}
