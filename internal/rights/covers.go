package rights

import "strings"

// AskPermissions is the request with which a user asks the server what it may do.
const AskPermissions = "$SYS.REQ.USER.INFO"

// Covers reports whether a right includes all that a subject matches; both may have
// wildcards, and a queue group after a space. A right with a queue group is for that group
// only, one without is for every group.
func Covers(right, subject string) bool {
	pattern, group, inGroup := strings.Cut(right, " ")
	wanted, wantedGroup, _ := strings.Cut(subject, " ")
	return includes(strings.Split(pattern, "."), strings.Split(wanted, ".")) && (!inGroup || group == wantedGroup)
}

// includes compares token by token. A wildcard includes narrower ones, but not wider ones.
func includes(pattern, wanted []string) bool {
	for i, token := range pattern {
		switch {
		case i == len(wanted):
			return false
		case token == ">":
			return true
		case wanted[i] == ">", token != "*" && token != wanted[i]:
			return false
		}
	}
	return len(pattern) == len(wanted)
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
