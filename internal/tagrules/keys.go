package tagrules

import (
	"strings"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// The keys in the bucket.
const (
	templatesKey = "templates"
	orderPrefix  = "order."
)

func orderKey(tag string) string { return orderPrefix + tag }

// orderTag is the tag whose order is under a key, "" if it is another key.
func orderTag(key string) string {
	tag, isOrder := strings.CutPrefix(key, orderPrefix)
	if !isOrder {
		return ""
	}
	return strings.Clone(tag) // lets go of the whole subject
}

// Rights are those that a role needs to read the rules, or to change them.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	switch role {
	case rights.Worker, rights.Loader:
		return ReadRights(p)
	case rights.Admin:
		return rights.Join(ReadRights(p), rights.WriteBucket(agreement.BucketName(p), ">"))
	}
	return rights.Rights{}
}

// ReadRights are what reading the rules takes.
func ReadRights(p messages.Prefix) rights.Rights {
	bucket := agreement.BucketName(p)
	return rights.Join(rights.WatchBucket(bucket), rights.ReadLeader(resource.BucketStream(bucket)))
}
