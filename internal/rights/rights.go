// Package rights is about what a NATS user has to be allowed for the work of a role.
//
// Each package that talks to NATS states the rights that its part of the work takes, beside
// the subjects, streams and buckets that it names. Whoever wants to know what a role needs
// joins these statements. There is no other list: doctor asks this one, and tests hold
// nats.conf and a real server against it.
package rights

import (
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/subject"
)

// Role is the work of a process or a person, as nats.conf has users for them.
type Role string

// The roles.
const (
	Worker   Role = "worker"   // answers requests
	Loader   Role = "loader"   // reserves segments
	Admin    Role = "admin"    // makes streams and buckets, creates tags
	Enricher Role = "enricher" // puts IDs on events
	Auditor  Role = "auditor"  // verifies what enrichers did
	Caller   Role = "caller"   // asks for IDs
)

// Rights are the subjects that a user publishes to and subscribes to, wildcards included. A
// queue group follows its subject after a space, as in nats.conf.
type Rights struct {
	Publish, Subscribe []string
}

// Publish is the right to publish to subjects.
func Publish(subjects ...string) Rights { return Rights{Publish: subjects} }

// Subscribe is the right to subscribe to subjects.
func Subscribe(subjects ...string) Rights { return Rights{Subscribe: subjects} }

// Join is all of these rights, each once, in order.
func Join(all ...Rights) (joined Rights) {
	for _, r := range all {
		joined.Publish = append(joined.Publish, r.Publish...)
		joined.Subscribe = append(joined.Subscribe, r.Subscribe...)
	}
	for _, list := range []*[]string{&joined.Publish, &joined.Subscribe} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return joined
}

// InQueue is a subject with the queue group that may subscribe to it.
func InQueue(subject, group string) string { return subject + " " + group }

// AskPermissions is the request with which a user asks the server what it may do.
const AskPermissions = "$SYS.REQ.USER.INFO"

// Covers reports whether a right includes all that a subject matches; both may have
// wildcards, and a queue group after a space. A right with a queue group is for that group
// only, one without is for every group.
func Covers(right, wanted string) bool {
	pattern, group, inGroup := strings.Cut(right, " ")
	wanted, wantedGroup, _ := strings.Cut(wanted, " ")
	return subject.Covers(pattern, wanted) && (!inGroup || group == wantedGroup)
}

// Includes reports whether the rights allow publishing to a subject.
func (r Rights) Includes(subject string) bool {
	for _, right := range r.Publish {
		if Covers(right, subject) {
			return true
		}
	}
	return false
}
