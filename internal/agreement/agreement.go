// Package agreement is the bucket <prefix>_config: what all processes of an installation
// have to agree on. The first process that has an opinion writes it down, and it stays.
package agreement

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// BucketName is the name of the bucket.
func BucketName(p messages.Prefix) string { return string(p) + "_config" }

// Bucket is the bucket, with replicas copies, 1 to 5, odd.
func Bucket(prefix messages.Prefix, replicas int) resource.Resource {
	return resource.Bucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: what all processes have to agree on", Replicas: replicas,
	})
}
