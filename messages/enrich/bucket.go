package enrich

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// BucketName is the name of the bucket that says how far each enrichment is.
func BucketName(p messages.Prefix) string { return string(p) + "_enrich" }

// enrichmentName is the name of an enrichment, by its streams: the key of its record.
func enrichmentName(source, target string) string { return source + "." + target }

// turnSubject is the subject on which enrichers of one enrichment ask for the next turn.
func turnSubject(p messages.Prefix, enrichment string) string {
	return string(p) + ".enrich." + enrichment
}

// Bucket is the bucket of records, with replicas copies, 1 to 5, odd.
func Bucket(prefix messages.Prefix, replicas int) resource.Resource {
	return resource.Bucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: how far each enrichment is", Replicas: replicas,
	})
}
