package rights

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// Violation is a right that a server denied its user: to subscribe to a subject,
// or to publish to it.
type Violation struct {
	Subscribe bool
	Subject   string
}

// ViolationOf returns the violation that an error reports, if it reports one.
// The server's texts are: Permissions Violation for Publish to "a.b", and
// Subscription to "a.b" using queue "q".
func ViolationOf(err error) (v Violation, ok bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return v, false
	}
	text := err.Error()
	what, rest, _ := strings.Cut(text, `"`)
	v.Subject, _, _ = strings.Cut(rest, `"`)
	v.Subscribe = strings.Contains(strings.ToLower(what), "subscription to")
	return v, true
}
