package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// Role is the role to check: a role of package rights, or all, a worker and
// loader in one process.
type Role string

const roleAll Role = "all"

func (r Role) is(one rights.Role) bool { return rights.Role(r) == one }

// answers reports whether the role uses worker IDs and their layout.
func (r Role) answers() bool {
	return r == roleAll || r.is(rights.Worker) || r.is(rights.Snowflake) || r.is(rights.Admin)
}

// counts reports whether the role uses the store.
func (r Role) counts() bool { return r == roleAll || r.is(rights.Loader) || r.is(rights.Admin) }

// hasOwnStreams reports whether the role uses streams of events, which may be
// in another account than the IDs.
func (r Role) hasOwnStreams() bool { return r.is(rights.Enricher) || r.is(rights.Auditor) }

// Needs returns the rights that the role needs, in the account's own JetStream
// domain.
func (r Role) Needs(p messages.Prefix) rights.Rights {
	switch one := rights.Role(r); {
	case r == roleAll:
		return rights.Join(Role(rights.Worker).Needs(p), Role(rights.Loader).Needs(p))
	case one == rights.Enricher:
		return rights.Join(enrich.Rights(p, one), agreement.Rights(p, one))
	case one == rights.Auditor:
		return verify.Rights(one)
	default:
		return rights.Join(worker.Rights(p, one), register.Rights(p, one))
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

// MissingError lists the rights that a user lacks.
type MissingError struct{ Missing rights.Rights }

func (e *MissingError) Error() string {
	var all []string
	for _, subject := range e.Missing.Publish {
		all = append(all, "publish "+subject)
	}
	for _, subject := range e.Missing.Subscribe {
		all = append(all, "subscribe "+subject)
	}
	return fmt.Sprintf("the user may not %s", strings.Join(all, ", "))
}

// Check returns a [*MissingError] if the user lacks some of the rights.
func (p Permissions) Check(need rights.Rights) error {
	if p.granted == nil {
		return nil
	}
	missing := rights.Rights{Publish: lacking(p.granted.Publish, need.Publish), Subscribe: lacking(p.granted.Subscribe, need.Subscribe)}
	if len(missing.Publish)+len(missing.Subscribe) > 0 {
		return &MissingError{missing}
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
