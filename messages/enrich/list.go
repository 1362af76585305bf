package enrich

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages"
)

// Standing is how far an enrichment is, as its record says. Whether enrichers run is told by Written alone:
// the one whose turn it is writes the record every second.
type Standing struct {
	Source, Target string // streams
	Filter, To, ID string // as enrichers were told
	Owner          string // the enricher whose turn it is, or was last; empty if it was nobody's
	Done           uint64 // all events of the source through this one are enriched
	Written        time.Time

	// What [Measure] finds out.
	Lag    uint64    // events that wait in the source
	Oldest time.Time // when the source stored the first of them; zero if none waits
}

// Stalled is how long a record has not been written if no enricher is at work.
const Stalled = 3 * ownerTimeout

// ListRights are what [List] takes.
func ListRights(p messages.Prefix) rights.Rights { return rights.WatchBucket(BucketName(p)) }

// MeasureRights are what [Measure] takes for a source.
func MeasureRights(source string) rights.Rights { return streamread.Rights(source) }

// List returns how far each enrichment is, by the name of the target. Entries that cannot be read are
// named in an error, beside those that can. Errors: jetstream.ErrBucketNotFound, if nothing was ever enriched.
func List(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (all []Standing, err error) {
	bucket := BucketName(prefix)
	if _, err := kv.Open(ctx, js, bucket); err != nil {
		return nil, err
	}
	var broken []error
	err = kv.List(ctx, js, bucket, func(entry kv.Entry) {
		if entry.Deleted {
			return
		}
		r, err := decodeRecord(bucket, entry)
		if err != nil {
			broken = append(broken, err)
			return
		}
		all = append(all, Standing{
			Source: r.From, Target: targetOf(entry.Key), Filter: r.Filter, To: r.To, ID: r.ID,
			Owner: r.Owner, Done: r.Done, Written: entry.Created,
		})
	})
	if err != nil {
		return all, err
	}
	slices.SortFunc(all, func(a, b Standing) int { return strings.Compare(a.Target, b.Target) })
	return all, errors.Join(broken...)
}

// targetOf is the target whose record has that key.
func targetOf(key string) string {
	var target []byte
	for i := 0; i < len(key); i++ {
		if key[i] == '=' && i+2 < len(key) {
			if c, err := strconv.ParseUint(key[i+1:i+3], 16, 8); err == nil {
				target, i = append(target, byte(c)), i+2
				continue
			}
		}
		target = append(target, key[i])
	}
	return string(target)
}

// Measure finds out what waits in the source.
func (s *Standing) Measure(ctx context.Context, js jetstream.JetStream) error {
	first, err := streamread.Next(ctx, js, s.Source, s.Filter, s.Done+1)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	source, err := js.Stream(ctx, s.Source)
	if err != nil {
		return err
	}
	s.Oldest = first.Time
	s.Lag, err = streamread.Count(ctx, source, s.Filter, s.Done+1)
	return err
}
