package rights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// AskPermissions is the request with which a user asks the server what it may do.
const AskPermissions = "$SYS.REQ.USER.INFO"

// Permissions is what a user may do.
type Permissions struct {
	granted *server.Permissions // nil means everything
}

// Ask asks the server what the user of a connection may do. A user that may not ask gets no
// answer.
func Ask(ctx context.Context, conn *nats.Conn) (Permissions, error) {
	reply, err := conn.RequestWithContext(ctx, AskPermissions, nil)
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
type MissingError struct{ Missing Rights }

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

// Check returns a [*MissingError] if the permissions do not cover all of need.
func (p Permissions) Check(need Rights) error {
	if p.granted == nil {
		return nil
	}
	var missing Rights
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
		allowed = allowed || Covers(pattern, subject)
	}
	for _, pattern := range list.Deny {
		plain, _, _ := strings.Cut(pattern, " ")
		wanted, _, _ := strings.Cut(subject, " ")
		allowed = allowed && !server.SubjectsCollide(plain, wanted)
	}
	return allowed
}

// Covers reports whether a right, with or without a queue group, includes all of what a
// subject matches. One with a queue group is for that group only, one without for every group.
func Covers(right, subject string) bool {
	pattern, group, inGroup := strings.Cut(right, " ")
	wanted, wantedGroup, _ := strings.Cut(subject, " ")
	return server.SubjectMatchesFilter(wanted, pattern) && (!inGroup || group == wantedGroup)
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
