package natsconn

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/subject"
)

// Permissions is a user's permissions. The zero value permits everything.
type Permissions struct{ granted *server.Permissions }

// RequestPermissions requests the permissions of a connection's user. Without
// the right to, there is no reply, so ctx should have a deadline.
func RequestPermissions(ctx context.Context, conn *nats.Conn) (Permissions, error) {
	reply, err := conn.RequestWithContext(ctx, rights.AskPermissions, nil)
	if err != nil {
		return Permissions{}, err
	}
	var info struct {
		Data *server.UserInfo `json:"data"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil || info.Data == nil {
		return Permissions{}, errors.New("unreadable reply")
	}
	return Permissions{info.Data.Permissions}, nil
}

// RightsError lists the rights that a user lacks.
type RightsError struct{ Missing rights.Rights }

func (e *RightsError) Error() string {
	var all []string
	for _, subject := range e.Missing.Publish {
		all = append(all, "publish "+subject)
	}
	for _, subject := range e.Missing.Subscribe {
		all = append(all, "subscribe "+subject)
	}
	return "the user may not " + strings.Join(all, ", ")
}

// Problem is part of [problem.Problem].
func (e *RightsError) Problem() (problem.Kind, []any) { return problem.Denied, nil }

// Check returns a [*RightsError] if the user lacks some of the rights.
func (p Permissions) Check(need rights.Rights) error {
	if p.granted == nil {
		return nil
	}
	missing := rights.Rights{Publish: lacking(p.granted.Publish, need.Publish), Subscribe: lacking(p.granted.Subscribe, need.Subscribe)}
	if len(missing.Publish)+len(missing.Subscribe) > 0 {
		return &RightsError{missing}
	}
	return nil
}

// lacking returns the subjects that a list does not permit.
func lacking(list *server.SubjectPermission, subjects []string) []string {
	return slices.DeleteFunc(slices.Clone(subjects), func(subject string) bool { return permits(list, subject) })
}

// permits reports whether a list permits everything that a subject matches. The
// subject may have a queue group.
func permits(list *server.SubjectPermission, wanted string) bool {
	if list == nil {
		return true
	}
	allowed := len(list.Allow) == 0
	for _, pattern := range list.Allow {
		allowed = allowed || rights.Covers(pattern, wanted)
	}
	wanted, _, _ = strings.Cut(wanted, " ")
	for _, pattern := range list.Deny {
		plain, _, _ := strings.Cut(pattern, " ")
		allowed = allowed && !subject.Overlap(plain, wanted)
	}
	return allowed
}

// Allowed reports whether the user has rights. If the server does not answer, or
// JetStream is in another domain, whose permissions are unknown, it is true. A
// denied request would never be answered.
func Allowed(ctx context.Context, js jetstream.JetStream, need rights.Rights) bool {
	if js.Options().Domain+js.Options().APIPrefix != "" {
		return true
	}
	granted, err := RequestPermissions(ctx, js.Conn())
	return err != nil || granted.Check(need) == nil
}
