package rights

import (
	"strings"

	"github.com/idworker/idworker/internal/subject"
)

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
