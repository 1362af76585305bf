package enrich

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
)

// Standing is the state of an enrichment, from its record. Only Written shows
// whether enrichers run: the owner writes the record every second.
type Standing struct {
	Source, Target string // streams
	Filter, To, ID string // the enrichers' settings
	// The enricher whose turn it is, or was last; empty if the turn is free.
	Owner string
	// All events of the source through this event are enriched.
	Done    uint64
	Written time.Time
	// Why the enrichment has stopped; empty if it works.
	Failing string

	// The results of [Standing.Measure].
	Lag uint64 // events that wait in the source
	// When the source stored the first of them; zero if none waits.
	Oldest time.Time

	settings settings
}

// newStanding reads an entry of the bucket.
func newStanding(bucket string, entry kv.Entry) (Standing, error) {
	r, err := decodeRecord(bucket, entry)
	target, _, _ := strings.Cut(r.Chain, " ")
	return Standing{
		Source: r.From, Target: target, Filter: r.Filter, To: r.To, ID: r.ID,
		Owner: r.Owner, Done: r.Done, Written: entry.Created, Failing: r.Failing, settings: r.settings,
	}, err
}

// Stalled is the age of a record after which no enricher is running.
const Stalled = 3 * ownerTimeout

// List returns the state of each enrichment, by the name of the target.
// Unreadable entries are named in an error, beside the readable entries.
// Errors: jetstream.ErrBucketNotFound, if nothing was ever enriched.
func List(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (all []Standing, err error) {
	bucket := BucketName(prefix)
	if _, err := kv.Open(ctx, js, bucket); err != nil {
		return nil, err
	}
	found, err := kv.Latest(ctx, js, bucket, kv.ByConsumer)
	if err != nil {
		return nil, err
	}
	var broken []error
	for _, key := range slices.Sorted(maps.Keys(found)) {
		entry := found[key]
		if entry.Deleted {
			continue
		}
		if s, err := newStanding(bucket, entry); err == nil {
			all = append(all, s)
		} else {
			broken = append(broken, err)
		}
	}
	slices.SortFunc(all, func(a, b Standing) int { return strings.Compare(a.Target, b.Target) })
	return all, errors.Join(broken...)
}

// Measure sets the lag of the source.
func (s *Standing) Measure(ctx context.Context, js jetstream.JetStream) error {
	source, err := js.Stream(ctx, s.Source)
	if err != nil {
		return err
	}
	s.Lag, s.Oldest, err = waiting(ctx, js, source, s.Filter, s.Done)
	return err
}

// waiting returns the number of events that wait in a source behind a sequence,
// and the time at which the first of them was stored.
func waiting(ctx context.Context, js jetstream.JetStream, source jetstream.Stream, filter string, done uint64) (lag uint64, oldest time.Time, err error) {
	first, err := streamread.Next(ctx, js, source.CachedInfo().Config.Name, filter, done+1)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, time.Time{}, nil
	}
	if err == nil {
		lag, err = streamread.Count(ctx, source, filter, done+1)
	}
	return lag, first.Time, err
}

// ErrMixedTarget is an error of [Standing.CheckTarget].
var ErrMixedTarget = errors.New("the target also takes other subjects, and removes messages: after a crash, enrichment may stop")

// CheckTarget checks the target's configuration. Errors: [ErrConfig] if it
// copies other streams, so that enrichers refuse it; [ErrMixedTarget] if a
// message of another publisher may take an event's place and be gone when an
// enricher looks.
func (s *Standing) CheckTarget(target jetstream.StreamConfig) error {
	others := slices.DeleteFunc(slices.Clone(target.Subjects), func(other string) bool {
		return subject.Covers(s.To, other) || other == s.settings.DeadLetter
	})
	removes := target.Retention != jetstream.LimitsPolicy || target.MaxAge > 0 || target.MaxMsgsPerSubject > 0 || target.AllowMsgTTL ||
		target.Discard == jetstream.DiscardOld && (target.MaxMsgs > 0 || target.MaxBytes > 0)
	switch {
	case len(target.Sources) > 0:
		return copiesError(target)
	case len(others) > 0 && removes:
		return fmt.Errorf("%w: stream %s, subjects %q", ErrMixedTarget, target.Name, others)
	}
	return nil
}

// Retire deletes the record of an enrichment that has ended for good, and
// returns its state: a later enrichment to this target has no evidence of it.
// For three heartbeats it watches for a running enricher. Errors: [ErrAtWork],
// [ErrConfig] if there is no such record.
func Retire(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source, target string) (Standing, error) {
	bucket, err := kv.Open(ctx, js, BucketName(prefix))
	if err != nil {
		return Standing{}, err
	}
	entry, err := bucket.Get(ctx, recordKey(target))
	if err != nil {
		return Standing{}, err
	}
	var s Standing
	if entry.Exists() {
		if s, err = newStanding(bucket.Name(), entry); err != nil {
			return s, err
		}
	}
	if s.Source != source || s.Target != target {
		return s, configError("no record of an enrichment from stream %s to stream %s", source, target)
	}
	if pause.For(ctx, ownerTimeout); ctx.Err() != nil {
		return s, ctx.Err()
	}
	err = bucket.Delete(ctx, entry.Key, entry.Revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		err = fmt.Errorf("%w: from stream %s to stream %s", ErrAtWork, source, target)
	}
	return s, err
}
