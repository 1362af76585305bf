package main

import (
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/store/register"
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

// hasOwnStreams reports whether the role has to do with streams of events, which may be in an
// account of their own, and not with where IDs come from.
func (r role) hasOwnStreams() bool { return r.is(rights.Enricher) || r.is(rights.Auditor) }

// needs are the rights without which a role cannot do its work.
func (r role) needs(p messages.Prefix) rights.Rights {
	switch one := rights.Role(r); {
	case r == roleAll:
		return rights.Join(role(rights.Worker).needs(p), role(rights.Loader).needs(p))
	case one == rights.Enricher:
		return rights.Join(enrich.Rights(p, one), agreement.Rights(p, one))
	case one == rights.Auditor:
		return verify.Rights(one)
	default:
		return rights.Join(worker.Rights(p, one), register.Rights(p, one))
	}
}
