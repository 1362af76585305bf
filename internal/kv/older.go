package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
)

// Evidence says that something was counted or remembered in a bucket, although the bucket is
// missing or, if missing is false, there is nothing in it. It returns what it rests on, "" if
// there is no such evidence.
//
// What is written to the bucket, or that it was created, must come before the evidence:
// evidence is believed if the bucket is still as it was after the evidence was found.
type Evidence func(ctx context.Context, js jetstream.JetStream, missing bool) (what string, err error)

// OlderError says that a bucket is not there, or empty, in an installation in which it was not.
// An empty one would begin to count again from the start.
type OlderError struct {
	Bucket  string // its name
	Missing bool   // it is; otherwise it is empty
	What    string // the evidence
}

func (e *OlderError) Error() string {
	is := "empty"
	if e.Missing {
		is = "missing"
	}
	return fmt.Sprintf("bucket %s is %s, but was in use before: %s", e.Bucket, is, e.What)
}

// Problem is part of [problem.Problem].
func (e *OlderError) Problem() (problem.Kind, []any) {
	switch {
	case strings.HasSuffix(e.Bucket, "_clock"):
		return problem.ClockGone, nil
	case strings.HasSuffix(e.Bucket, "_register"):
		return problem.RegisterGone, nil
	case strings.HasSuffix(e.Bucket, "_config"):
		return problem.ConfigGone, []any{e.Bucket}
	}
	return problem.BucketGone, nil
}

// HasEntries is the evidence that another bucket has entries, or had some that were deleted. It
// is for buckets that are missing; nothing follows for empty ones.
func HasEntries(bucket string) Evidence {
	return func(ctx context.Context, js jetstream.JetStream, missing bool) (string, error) {
		if !missing {
			return "", nil
		}
		return Entries(ctx, js, bucket)
	}
}

// Entries says how many entries a bucket has, and "" if that is none.
func Entries(ctx context.Context, js jetstream.JetStream, bucket string) (string, error) {
	s, err := js.Stream(ctx, StreamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", bucket, err)
	}
	if n := s.CachedInfo().State.Msgs; n > 0 {
		return fmt.Sprintf("bucket %s has %d entries", bucket, n), nil
	}
	return "", nil
}

// find looks for the stream. That it is missing, or empty, is an [*OlderError] if there is
// evidence that it was not always so.
func (s stream) find(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	found, err := js.Stream(ctx, s.config.Name)
	gone, missing := isGone(found, err)
	if !gone {
		return found, err
	}
	for _, evidence := range s.older {
		what, failed := evidence(ctx, js, missing)
		if failed != nil {
			return nil, s.unknown(missing, failed)
		}
		if what == "" {
			continue
		}
		again, errAgain := js.Stream(ctx, s.config.Name) // somebody else may have made it just now
		if gone, stillMissing := isGone(again, errAgain); !gone || stillMissing != missing {
			return again, errAgain
		}
		return nil, &OlderError{Bucket: s.bucket, Missing: missing, What: what}
	}
	return found, err
}

// isGone reports whether a stream is missing, or there and empty.
func isGone(found jetstream.Stream, err error) (gone, missing bool) {
	if err != nil {
		missing = errors.Is(err, jetstream.ErrStreamNotFound)
		return missing, missing
	}
	return found.CachedInfo().State.Msgs == 0, false
}

// unknown is the error when the evidence cannot be read.
func (s stream) unknown(isMissing bool, err error) error {
	err = fmt.Errorf("cannot determine whether it was in use before: %w", err)
	if isMissing {
		return missing(s, err)
	}
	return err
}
