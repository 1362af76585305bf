package loadmsg

import (
	"strings"

	"github.com/idworker/idworker/messages"
)

// StreamName is the name of the work-queue stream of load events.
func StreamName(p messages.Prefix) string { return strings.ToUpper(string(p)) + "_LOAD" }

// Subject is the subject of a worker's load events for a tag. The load stream
// keeps a single message per subject, and so allows one load at a time per
// worker and tag.
func Subject(p messages.Prefix, instance, tag string) string {
	return string(p) + ".load." + instance + "." + tag
}

// ReserveSubject is the subject of load events as plain messages to loaders.
func ReserveSubject(p messages.Prefix) string { return string(p) + ".reserve" }

// GrantSubject is the subject of grants to a worker process.
func GrantSubject(p messages.Prefix, instance string) string { return string(p) + ".grant." + instance }

// DropSubject is the subject of requests to all workers to drop a tag's buffer.
func DropSubject(p messages.Prefix) string { return string(p) + ".drop" }
