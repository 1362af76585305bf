package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
)

// Evidence looks for proof that a bucket had entries before, although it is
// missing now or, if missing is false, empty. It returns the proof as text, ""
// if there is none.
//
// Writing to the bucket, or creating it, must precede the evidence: evidence
// counts only if the bucket still is in the same state after it was found.
type Evidence func(ctx context.Context, js jetstream.JetStream, missing bool) (what string, err error)

// OlderError means that a bucket is missing or empty, but had entries before.
// An empty bucket would count from the start again.
type OlderError struct {
	Bucket  string // its name
	Missing bool   // else it is empty
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

// HasEntries is the evidence that another bucket has entries, or had some that
// were deleted. It proves that a bucket existed; it proves nothing about an
// empty bucket.
func HasEntries(bucket string) Evidence {
	return func(ctx context.Context, js jetstream.JetStream, missing bool) (string, error) {
		if !missing {
			return "", nil
		}
		return Entries(ctx, js, bucket)
	}
}

// Entries describes the number of entries of a bucket; "" if it has none.
func Entries(ctx context.Context, js jetstream.JetStream, bucket string) (string, error) {
	s, err := js.Stream(ctx, StreamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", bucket, err)
	}
	if n := s.CachedInfo().State.Msgs; n > 0 {
		return fmt.Sprintf("bucket %s is not empty (entries: %d)", bucket, n), nil
	}
	return "", nil
}

// find looks up the stream. A missing or empty stream is an [*OlderError] if
// there is evidence of an earlier one. A server that is too old is refused.
func (s stream) find(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	if err := checkServer(js.Conn()); err != nil {
		return nil, err
	}
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
		// Another process may have created it.
		again, errAgain := js.Stream(ctx, s.config.Name)
		if gone, stillMissing := isGone(again, errAgain); !gone || stillMissing != missing {
			return again, errAgain
		}
		return nil, &OlderError{Bucket: s.bucket, Missing: missing, What: what}
	}
	return found, err
}

// isGone reports whether a stream is missing, or exists and is empty.
func isGone(found jetstream.Stream, err error) (gone, missing bool) {
	if err != nil {
		missing = errors.Is(err, jetstream.ErrStreamNotFound)
		return missing, missing
	}
	return found.CachedInfo().State.Msgs == 0, false
}

// unknown is the error if the evidence cannot be read.
func (s stream) unknown(isMissing bool, err error) error {
	err = fmt.Errorf("cannot determine whether it was in use before: %w", err)
	if isMissing {
		return missing(s, err)
	}
	return err
}
