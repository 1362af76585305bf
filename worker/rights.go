package worker

import (
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/neighbours"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
)

// Rights are those that a role needs for a process: for requests and the load path, and
// those that the leases, the templates and the installation's config state. What the store
// takes, the store states.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	return rights.Join(ownRights(p, role), reportRights(p, role), lease.Rights(p, role), agreement.Rights(p, role), templates.Rights(p, role))
}

func ownRights(p messages.Prefix, role rights.Role) rights.Rights {
	requests := []string{p.Segment(">"), p.Snowflake()}
	stream := loads.StreamName(p)
	hello := neighbours.Rights(p, role)
	switch role {
	case rights.Worker:
		return rights.Join(
			rights.Subscribe(rights.InQueue(p.Segment(">"), p.QueueGroup()), rights.InQueue(p.Snowflake(), p.QueueGroup())),
			rights.Subscribe(serviceSubjects()...),
			rights.Publish(loads.Subject(p, "*", ">"), loads.ReserveSubject(p), rights.StreamInfo(stream)),
			rights.Subscribe(loads.GrantSubject(p, "*"), loads.DropSubject(p)), hello,
		)
	case rights.Loader:
		consumer := stream + "." + LoaderConsumer
		return rights.Join(
			rights.Publish(rights.StreamInfo(stream), rights.ConsumerInfo(stream, LoaderConsumer),
				rights.API("CONSUMER.MSG.NEXT."+consumer), "$JS.ACK."+consumer+".>"),
			rights.Subscribe(rights.InQueue(loads.ReserveSubject(p), p.QueueGroup())),
			rights.Publish(loads.GrantSubject(p, "*")), hello,
			rights.Publish(rights.StreamInfo("KV_"+lease.ClockBucketName(p))), // which its witness notes
		)
	case rights.Caller:
		return rights.Publish(requests...)
	case rights.Admin:
		consumer := stream + "." + LoaderConsumer
		return rights.Join(
			rights.Publish(requests...),
			rights.ProvisionStream(stream), rights.Publish(rights.ConsumerInfo(stream, LoaderConsumer),
				rights.API("CONSUMER.CREATE."+consumer), rights.API("CONSUMER.DURABLE.CREATE."+consumer)),
			rights.Publish(loads.DropSubject(p)),
		)
	}
	return rights.Rights{}
}

// serviceSubjects are those on which a micro service is asked how it is, by all that there
// are, by name, and by name and ID.
func serviceSubjects() (all []string) {
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		all = append(all, "$SRV."+verb)
		for _, name := range []string{ServiceName, snowflakeServiceName} {
			all = append(all, "$SRV."+verb+"."+name, "$SRV."+verb+"."+name+".*")
		}
	}
	return all
}
