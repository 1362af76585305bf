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

// Role is whose needs a doctor looks at: one of those of package rights, or all,
// which is worker and loader in one process.
type Role string

const roleAll Role = "all"

func (r Role) is(one rights.Role) bool { return rights.Role(r) == one }

// answers reports whether the role has to do with worker IDs and their layout.
func (r Role) answers() bool { return r == roleAll || r.is(rights.Worker) || r.is(rights.Admin) }

// counts reports whether the role has to do with the store.
func (r Role) counts() bool { return r == roleAll || r.is(rights.Loader) || r.is(rights.Admin) }

// hasOwnStreams reports whether the role has to do with streams of events, which
// may be in an account of their own, and not with where IDs come from.
func (r Role) hasOwnStreams() bool { return r.is(rights.Enricher) || r.is(rights.Auditor) }

// needs are the rights without which a role cannot do its work, in the account's
// own JetStream domain.
func (r Role) needs(p messages.Prefix) rights.Rights {
	switch one := rights.Role(r); {
	case r == roleAll:
		return rights.Join(Role(rights.Worker).needs(p), Role(rights.Loader).needs(p))
	case one == rights.Enricher:
		return rights.Join(enrich.Rights(p, one), agreement.Rights(p, one))
	case one == rights.Auditor:
		return verify.Rights(one)
	default:
		return rights.Join(worker.Rights(p, one), register.Rights(p, one))
	}
}

// Permissions is what the server says that a user may do. The zero value is
// everything.
type Permissions struct{ granted *server.Permissions }

// AskPermissions asks the server what the user of a connection may do. A user
// that may not ask gets no answer, so ctx should have a deadline.
func AskPermissions(ctx context.Context, conn *nats.Conn) (Permissions, error) {
	reply, err := conn.RequestWithContext(ctx, rights.AskPermissions, nil)
	if err != nil {
		return Permissions{}, err
	}
	var info struct {
		Data *server.UserInfo `json:"data"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil || info.Data == nil {
		return Permissions{}, errors.New("the answer cannot be read")
	}
	return Permissions{info.Data.Permissions}, nil
}

// MissingError names the rights that a user lacks.
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

// lacking are the subjects that a list does not permit.
func lacking(list *server.SubjectPermission, subjects []string) []string {
	return slices.DeleteFunc(slices.Clone(subjects), func(subject string) bool { return permits(list, subject) })
}

// permits reports whether a list allows all of what a subject, with or without a queue
// group, matches.
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
