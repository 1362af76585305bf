package resource

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Resource is a stream, a bucket or a consumer with the settings it should have.
type Resource interface {
	// String names it for people: "bucket ids_register".
	String() string

	// InfoSubject is the request of the JetStream API with which the resource is opened. Who
	// has no right to it has nothing to do with the resource.
	InfoSubject() string

	// Look changes nothing. The error says that the resource is missing or cannot be used as
	// it is.
	Look(ctx context.Context, js jetstream.JetStream) (Found, error)

	// Ensure creates it if it is missing.
	Ensure(ctx context.Context, js jetstream.JetStream) error

	// Apply creates it if it is missing, or brings it in line, and returns what it did.
	Apply(ctx context.Context, js jetstream.JetStream) (did string, err error)
}

// Found is a resource that can be used.
type Found struct {
	Difference string // in which settings it differs from what it should be
	Copies     string // which copies are missing; empty if none is, or the server is in no cluster
}

// What Apply did; or "changed: " and the settings.
const (
	created = "created"
	asIs    = "as it should be"
)

// MissingError is that a resource is missing and could not be created.
type MissingError struct {
	Resource Resource
	Err      error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing and cannot be created: %v", e.Resource, e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }

// missing wraps the error of creating r; nil stays nil.
func missing(r Resource, err error) error {
	if err == nil {
		return nil
	}
	return &MissingError{r, err}
}

// Ensure creates the resources that are missing, in order.
func Ensure(ctx context.Context, js jetstream.JetStream, all ...Resource) error {
	for _, r := range all {
		if err := r.Ensure(ctx, js); err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
	}
	return nil
}
