package agreement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// ErrPin is wrapped by every [PinError].
var ErrPin = errors.New("not the pinned installation")

// PinError means that NATS answers, but has no installation, or another one than
// the pinned one: the data was lost, or it is the wrong server.
type PinError struct {
	Prefix        messages.Prefix
	Pinned, Found string // IDs; Found is empty if there is no installation
}

func (e *PinError) Error() string {
	found := "installation " + e.Found
	switch e.Found {
	case "":
		found = "no installation"
	case e.Pinned:
		found = "another installation with the same ID"
	}
	return fmt.Sprintf("%v: NATS has %s of prefix %s, expected %s", ErrPin, found, e.Prefix, e.Pinned)
}

// Unwrap makes it an [ErrPin].
func (e *PinError) Unwrap() error { return ErrPin }

// Problem is part of [problem.Problem].
func (e *PinError) Problem() (problem.Kind, []any) {
	if e.Found != "" {
		return problem.PinnedOther, []any{e.Found}
	}
	return problem.PinnedNone, []any{e.Pinned}
}

// MaxIDLen is the maximum length of an installation's ID in bytes: processes
// drop messages with a longer one.
const MaxIDLen = 32

// CheckID returns an error unless the text can be the ID of an installation.
func CheckID(id string) error {
	if len(id) > MaxIDLen || messages.CheckTag(id) != nil || strings.Contains(id, ".") {
		return fmt.Errorf("%w: %.100q; an ID has 1 to %d letters, digits, - and _, and no dot", ErrInstallation, id, MaxIDLen)
	}
	return nil
}

// CheckPin checks that NATS has the installation with that ID. It changes
// nothing. The error is a [*PinError], or the ID is unknown because JetStream
// does not answer.
func CheckPin(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, id string) error {
	here, err := LookupID(ctx, js, prefix)
	if err == nil && here != id {
		err = &PinError{prefix, id, here}
	}
	return err
}

// CheckIdentity is [CheckPin] of an installation that was made at a time. Another
// can have the same ID, if an operator chose it.
func CheckIdentity(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, id string, created time.Time) error {
	value, found, err := Lookup(ctx, js, prefix, InstallationKey)
	if err != nil {
		return err
	}
	here, since, _ := strings.Cut(value, " ")
	if at, err := time.Parse(time.RFC3339Nano, since); found && here == id && err == nil && at.Equal(created) {
		return nil
	}
	return &PinError{prefix, id, here}
}

// Begin makes a new installation with that ID, or a random one if it is empty.
// The caller has checked that no bucket exists. If another process was faster,
// the error is a [*PinError].
func Begin(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int, id string) error {
	if id == "" {
		id = nuid.Next()
	}
	if err := kv.Ensure(ctx, js, NewBucket(prefix, replicas)); err != nil {
		return err
	}
	a, err := Open(ctx, js, prefix)
	if err != nil {
		return err
	}
	value, err := a.Agree(ctx, InstallationKey, id+" "+a.info().Created.UTC().Format(time.RFC3339Nano))
	if here, _, _ := strings.Cut(value, " "); err == nil && here != id {
		err = &PinError{prefix, id, here}
	}
	return err
}
