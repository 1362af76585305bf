package main

import (
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/worker"
)

// role is whose needs a doctor looks at: one of those of package rights, or all.
type role string

// roleAll is worker and loader in one process.
const roleAll role = "all"

func (r role) is(one rights.Role) bool { return rights.Role(r) == one }

// answers reports whether the role has to do with worker IDs and their layout.
func (r role) answers() bool { return r == roleAll || r.is(rights.Worker) || r.is(rights.Admin) }

// counts reports whether the role has to do with the store.
func (r role) counts() bool { return r == roleAll || r.is(rights.Loader) || r.is(rights.Admin) }

// needs are the rights without which a role cannot do its work.
func (r role) needs(p messages.Prefix, kind backend.Kind) rights.Rights {
	if r == roleAll {
		return rights.Join(role(rights.Worker).needs(p, kind), role(rights.Loader).needs(p, kind))
	}
	one := rights.Role(r)
	if one == rights.Enricher {
		return enrich.Rights(p, one)
	}
	need := rights.Join(worker.Rights(p, one), lease.Rights(p, one), agreement.Rights(p, one))
	if kind == backend.JetStream {
		need = rights.Join(need, jetstreamstore.Rights(p, one))
	}
	return need
}
