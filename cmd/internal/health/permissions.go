package health

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// RoleAll is a worker and loader in one process, beside the roles of package
// rights.
const RoleAll rights.Role = "all"

// usesWorkerIDs reports whether a role uses worker IDs and their layout.
func usesWorkerIDs(r rights.Role) bool {
	return r == RoleAll || r == rights.Worker || r == rights.Snowflake || r == rights.Admin
}

// usesStore reports whether a role uses the store.
func usesStore(r rights.Role) bool { return r == RoleAll || r == rights.Loader || r == rights.Admin }

// hasOwnStreams reports whether a role uses streams of events, which may be in
// another account than the IDs. It uses the server of its streams, whose owner
// decides about it.
func hasOwnStreams(r rights.Role) bool { return r == rights.Enricher || r == rights.Auditor }

// Needs returns the rights that a role needs, in the account's own JetStream
// domain.
func Needs(r rights.Role, p messages.Prefix) rights.Rights {
	switch r {
	case RoleAll:
		return rights.Join(Needs(rights.Worker, p), Needs(rights.Loader, p))
	case rights.Enricher:
		return rights.Join(enrich.Rights(p, r), agreement.Rights(p, r))
	case rights.Auditor:
		return verify.Rights(r)
	default:
		return rights.Join(worker.Rights(p, r), register.Rights(p, r))
	}
}

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
func permits(list *server.SubjectPermission, subject string) bool {
	if list == nil {
		return true
	}
	allowed := len(list.Allow) == 0
	for _, pattern := range list.Allow {
		allowed = allowed || rights.Covers(pattern, subject)
	}
	for _, pattern := range list.Deny {
		plain, _, _ := strings.Cut(pattern, " ")
		wanted, _, _ := strings.Cut(subject, " ")
		allowed = allowed && !server.SubjectsCollide(plain, wanted)
	}
	return allowed
}
