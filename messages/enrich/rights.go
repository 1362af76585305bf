package enrich

import (
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages"
)

// Rights are the rights that a role needs for any enrichment: for the records,
// and to find streams by their subjects. Those for its streams are in
// testing/roles.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	bucket := BucketName(p)
	switch role {
	case rights.Enricher:
		return rights.Join(
			rights.Publish(p.Segment(">"), p.Snowflake(), rights.API("STREAM.NAMES")),
			rights.ReadBucket(bucket), rights.WriteBucket(bucket, ">"),
		)
	case rights.Admin:
		return rights.ProvisionBucket(bucket)
	}
	return rights.Rights{}
}

// ListRights are the rights for [List].
func ListRights(p messages.Prefix) rights.Rights { return rights.WatchBucket(BucketName(p)) }

// MeasureRights are the rights for [Standing.Measure] on a source.
func MeasureRights(source string) rights.Rights { return streamread.Rights(source) }
