// Package rights lists the permissions that a NATS user needs for a role.
//
// Each package that talks to NATS states its rights beside its subjects,
// streams and buckets. Joining these statements gives all rights of a role.
// There is no other list: doctor uses it, and tests compare it with nats.conf
// and a real server.
package rights

import (
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/subject"
)

// Duty is the work of a process or a person. nats.conf has a user for each, and
// Snowflake uses the worker's, whose rights include its own.
type Duty string

// The roles.
const (
	Worker    Duty = "worker"    // answers requests
	Loader    Duty = "loader"    // reserves segments
	Snowflake Duty = "snowflake" // answers requests for snowflake IDs only
	Admin     Duty = "admin"     // creates streams, buckets and tags
	Enricher  Duty = "enricher"  // puts IDs on events
	Auditor   Duty = "auditor"   // verifies the work of enrichers
	Caller    Duty = "caller"    // requests IDs
	Monitor   Duty = "monitor"   // reads the state of an installation
	Backup    Duty = "backup"    // reads all that a backup holds
)

// Rights are the subjects that a user may publish and subscribe to, wildcards
// included. A queue group follows its subject after a space, as in nats.conf.
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

// Without is r without some rights.
func (r Rights) Without(others Rights) Rights {
	without := func(list, others []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(others, s) })
	}
	return Rights{Publish: without(r.Publish, others.Publish), Subscribe: without(r.Subscribe, others.Subscribe)}
}

// InQueue is the right to subscribe to a subject in a queue group.
func InQueue(subject, group string) string { return subject + " " + group }

// AskPermissions is the request for the user's own permissions.
const AskPermissions = "$SYS.REQ.USER.INFO"

// Covers reports whether a right includes all subjects that match wanted. Both
// may have wildcards, and a queue group after a space. A right with a queue
// group is for that group only; without, it is for every group.
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
