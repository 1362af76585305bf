package ledger

import (
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// Rights are those that a role needs for the ledger.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	bucket := BucketName(p)
	use := rights.Join(
		rights.Publish(rights.StreamInfo("KV_"+bucket)),
		rights.ReadLeader("KV_"+bucket), rights.WatchBucket(bucket), rights.WriteBucket(bucket, ">"),
	)
	switch role {
	case rights.Loader:
		return rights.Join(use, rights.ReadBucket(agreement.BucketName(p)), rights.WriteBucket(agreement.BucketName(p), ConfigKey))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(bucket), use)
	}
	return rights.Rights{}
}
