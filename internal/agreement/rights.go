package agreement

import (
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// Rights are those that a role needs for what is agreed on. Workers write the keys of the
// packages that use the bucket, which state them.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	bucket := BucketName(p)
	switch role {
	case rights.Worker:
		return rights.Join(rights.ReadBucket(bucket), rights.WriteBucket(bucket, InstallationKey))
	case rights.Loader:
		return rights.Join(rights.ReadBucket(bucket), rights.WriteBucket(bucket, StoreKey, InstallationKey))
	case rights.Enricher:
		return rights.Publish(rights.API(readSubject(p, InstallationKey)))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(bucket), rights.ReadBucket(bucket), rights.WriteBucket(bucket, ">"))
	}
	return rights.Rights{}
}
