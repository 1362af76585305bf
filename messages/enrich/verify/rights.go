package verify

import (
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
)

// Rights are those that a role needs to verify any enrichment: to find streams by their
// subjects.
func Rights(role rights.Role) rights.Rights {
	if role == rights.Auditor {
		return rights.Publish(rights.API("STREAM.NAMES"))
	}
	return rights.Rights{}
}

// StreamRights are those for reading the streams of one enrichment: source, target, and that
// of dead letters. They are all that [Config.NoConsumers] takes.
func StreamRights(streams ...string) (r rights.Rights) {
	for _, stream := range streams {
		r = rights.Join(r, streamread.RightsWithoutConsumer(stream))
	}
	return r
}
