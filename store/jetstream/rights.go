package jetstream

import (
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// Rights are those that a role needs for the counters.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	bucket := BucketName(p)
	use := rights.Join(
		rights.ReadBucket(bucket), rights.ReadLeader("KV_"+bucket), rights.WatchBucket(bucket), rights.WriteBucket(bucket, ">"),
	)
	switch role {
	case rights.Loader:
		config := agreement.BucketName(p)
		return rights.Join(use, rights.ReadBucket(config), rights.WriteBucket(config, ConfigKey))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(bucket), use)
	}
	return rights.Rights{}
}
