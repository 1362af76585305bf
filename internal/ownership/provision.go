package ownership

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// BucketName is the name of the bucket.
func BucketName(p messages.Prefix) string { return string(p) + "_owners" }

// ConfigKey is the key of the installation's config that names the bucket that it had first, by
// the random number that is the bucket's identity.
const ConfigKey = "owners_id"

// Bucket is the bucket, with replicas copies, 1 to 5, odd. It may be made a second time where it was
// lost, see the package's documentation.
func Bucket(prefix messages.Prefix, replicas int) resource.Resource {
	return resource.Bucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: which process owns which slot of the strict tags", Replicas: replicas,
	})
}

// Rights are those that a role needs.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	bucket := BucketName(p)
	switch role {
	case rights.Worker:
		return rights.Join(rights.ReadBucket(bucket), rights.WatchBucket(bucket), rights.WriteBucket(bucket, ">"),
			rights.WriteBucket(agreement.BucketName(p), ConfigKey))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(bucket), rights.WatchBucket(bucket), rights.ReadLeader(resource.BucketStream(bucket)),
			rights.WriteBucket(bucket, leasePrefix+"*")) // to say what became of a process
	}
	return rights.Rights{}
}

// ReadLeasesRights are what [ReadLeases] takes.
func ReadLeasesRights(p messages.Prefix) rights.Rights {
	return rights.Join(rights.WatchBucket(BucketName(p)), rights.ReadLeader(resource.BucketStream(BucketName(p))))
}
