package lease

import (
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// Rights are the rights of a role for the leases of worker IDs.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	workers, clock := WorkersBucketName(p), ClockBucketName(p)
	holds := []string{HoldsSubject(p), HoldsSubject(p) + ".*"}
	switch role {
	case rights.Worker, rights.Snowflake:
		return rights.Join(
			rights.PeekBucket(workers), rights.WatchBucket(workers), rights.WriteBucket(workers, ">"),
			rights.PeekBucket(clock), rights.WatchBucket(clock), rights.WriteBucket(clock, ">"),
			agreement.Rights(p, role), rights.WriteBucket(agreement.BucketName(p), LayoutKey, ClockIDKey),
			rights.Publish(holds...), rights.Subscribe(holds...),
		)
	case rights.Monitor:
		return ListByRequestsRights(p)
	case rights.Admin: // lists the holders of worker IDs
		return rights.Join(
			rights.ProvisionBucket(workers), rights.WatchBucket(workers),
			rights.ProvisionBucket(clock), rights.WatchBucket(clock),
			agreement.Rights(p, role),
		)
	}
	return rights.Rights{}
}

// ListByRequestsRights are the rights that [List] needs with kv.ByRequests.
func ListByRequestsRights(p messages.Prefix) rights.Rights {
	return rights.Join(rights.ReadBucket(WorkersBucketName(p)), rights.ReadBucket(ClockBucketName(p)), rights.ReadBucket(agreement.BucketName(p)))
}

// ListRights are the rights that [List] needs with kv.ByConsumer.
func ListRights(p messages.Prefix) rights.Rights {
	return rights.Join(rights.WatchBucket(WorkersBucketName(p)), rights.WatchBucket(ClockBucketName(p)), rights.ReadBucket(agreement.BucketName(p)))
}
