package worker

import (
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/worker/internal/loader"
	"github.com/idworker/idworker/worker/internal/supply"
	"github.com/idworker/idworker/worker/loadmsg"
)

// Rights returns the rights that a role needs for a process, except for its
// store, which states its own.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	return rights.Join(ownRights(p, role), loader.Rights(p, role), supply.Rights(p, role),
		lease.Rights(p, role), agreement.Rights(p, role))
}

// ownRights returns the rights for requests and the services API.
func ownRights(p messages.Prefix, role rights.Duty) rights.Rights {
	requests := []string{p.Segment(">"), p.Snowflake()}
	// Each process is a service, looks for other installations, and has a
	// status page.
	process := rights.Join(
		rights.Subscribe(serviceSubjects(ProcessServiceName)...),
		AskReportsRights(), ListProcessesRights())
	switch role {
	case rights.Snowflake:
		return rights.Join(process,
			rights.Subscribe(processSubject(p, RoleSnowflake)),
			rights.Subscribe(rights.InQueue(p.Snowflake(), p.QueueGroup())),
			rights.Subscribe(serviceSubjects(snowflakeServiceName)...))
	case rights.Worker:
		return rights.Join(ownRights(p, rights.Snowflake),
			// At its start.
			rights.Publish(rights.StreamInfo(loadmsg.StreamName(p))),
			rights.Subscribe(rights.InQueue(p.Segment(">"), p.QueueGroup())),
			PublishClaimsRights(p),
			rights.Subscribe(serviceSubjects(ServiceName)...))
	case rights.Loader:
		return rights.Join(process, rights.Subscribe(loadmsg.LoadersSubject(p)), PublishClaimsRights(p),
			// For its witness.
			rights.Publish(rights.StreamInfo(kv.StreamName(lease.ClockBucketName(p)))))
	case rights.Caller:
		return rights.Publish(requests...)
	case rights.Monitor:
		return rights.Join(AskReportsRights(), ListProcessesRights())
	case rights.Admin:
		return rights.Join(rights.Publish(requests...), AskReportsRights(), ListProcessesRights(), LoaderListensRights(p))
	}
	return rights.Rights{}
}

// PublishClaimsRights are the rights of a process to publish to loaders what it has
// seen of the register. It works without, because loaders ask.
func PublishClaimsRights(p messages.Prefix) rights.Rights {
	return rights.Publish(loadmsg.LoadersSubject(p))
}

// serviceSubjects returns the subjects on which a micro service answers: for
// all services, by name, and by name and ID.
func serviceSubjects(name string) (all []string) {
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		all = append(all, "$SRV."+verb, "$SRV."+verb+"."+name, "$SRV."+verb+"."+name+".*")
	}
	return all
}
