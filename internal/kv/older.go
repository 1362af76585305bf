package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
)

// Trace looks for a trace of a bucket that existed before, although it is missing
// now. It returns the proof as text, "" if there is none.
//
// Creating the bucket must precede writing the evidence: evidence counts only if
// the bucket is still missing after it was found.
type Trace func(ctx context.Context, js jetstream.JetStream) (what string, err error)

// OlderError means that a bucket or a key is missing, but existed before. A new one would
// count from the start again.
type OlderError struct {
	Bucket string // its name
	Key    string // that is missing in the bucket; empty if the bucket is
	What   string // the evidence
}

func (e *OlderError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("bucket %s has lost its key %s, and perhaps others: %s", e.Bucket, e.Key, e.What)
	}
	return fmt.Sprintf("bucket %s is missing, but was in use before: %s", e.Bucket, e.What)
}

// Problem is part of [problem.Problem].
func (e *OlderError) Problem() (problem.Kind, []any) {
	switch {
	case strings.HasSuffix(e.Bucket, "_clock"):
		return problem.ClockGone, nil
	case strings.HasSuffix(e.Bucket, "_register"):
		return problem.RegisterGone, nil
	case strings.HasSuffix(e.Bucket, "_config"):
		return problem.ConfigGone, nil
	}
	return problem.BucketGone, nil
}

// HasEntries is the evidence that another bucket has entries, or had some that
// were deleted.
func HasEntries(bucket string) Trace {
	return func(ctx context.Context, js jetstream.JetStream) (string, error) {
		s, err := js.Stream(ctx, StreamName(bucket))
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("bucket %s: %w", bucket, err)
		case s.CachedInfo().State.Msgs == 0:
			return "", nil
		}
		return fmt.Sprintf("bucket %s is not empty (entries: %d)", bucket, s.CachedInfo().State.Msgs), nil
	}
}

// find looks up the stream. A missing stream is an [*OlderError] if there is
// evidence of an earlier one. A server that is too old is refused.
func (s stream) find(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	if err := checkServer(js.Conn()); err != nil {
		return nil, err
	}
	found, err := js.Stream(ctx, s.config.Name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return found, err
	}
	for _, evidence := range s.lasting.Older {
		what, failed := evidence(ctx, js)
		if failed != nil {
			return nil, missing(s, fmt.Errorf("cannot determine whether it was in use before: %w", failed))
		}
		if what == "" {
			continue
		}
		// Another process may have created it.
		again, err := js.Stream(ctx, s.config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = &OlderError{Bucket: s.bucket, What: what}
		}
		return again, err
	}
	return nil, err
}
