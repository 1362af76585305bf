package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/rights"
)

// permissions is what a user may do.
type permissions struct {
	granted *server.Permissions // nil means everything
}

// askPermissions asks the server what the user of a connection may do. A user that may not ask gets no
// answer.
func askPermissions(ctx context.Context, conn *nats.Conn) (permissions, error) {
	reply, err := conn.RequestWithContext(ctx, rights.AskPermissions, nil)
	if err != nil {
		return permissions{}, err
	}
	var info struct {
		Data *server.UserInfo `json:"data"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil || info.Data == nil {
		return permissions{}, errors.New("the answer cannot be read")
	}
	return permissions{info.Data.Permissions}, nil
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

// check returns a [*MissingError] if the permissions do not cover all of need.
func (p permissions) check(need rights.Rights) error {
	if p.granted == nil {
		return nil
	}
	var missing rights.Rights
	for _, subject := range need.Publish {
		if !permits(p.granted.Publish, subject) {
			missing.Publish = append(missing.Publish, subject)
		}
	}
	for _, subject := range need.Subscribe {
		if !permits(p.granted.Subscribe, subject) {
			missing.Subscribe = append(missing.Subscribe, subject)
		}
	}
	if len(missing.Publish)+len(missing.Subscribe) > 0 {
		return &MissingError{missing}
	}
	return nil
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

// Permissions is what the server says that a user may do.
type Permissions struct{ permissions }

// AskPermissions asks the server what the user of a connection may do. A user that may not ask gets no
// answer, so ctx should have a deadline.
func AskPermissions(ctx context.Context, conn *nats.Conn) (Permissions, error) {
	p, err := askPermissions(ctx, conn)
	return Permissions{p}, err
}

// Check returns a [*MissingError] if the user lacks some of the rights. The zero value allows all.
func (p Permissions) Check(need rights.Rights) error { return p.check(need) }
