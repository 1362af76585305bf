package main

import (
	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/doctor"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
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
	inJetStream := kind == backend.JetStream
	if r == roleAll {
		return rights.Join(doctor.Needs(p, rights.Worker, inJetStream), doctor.Needs(p, rights.Loader, inJetStream))
	}
	return doctor.Needs(p, rights.Role(r), inJetStream)
}
