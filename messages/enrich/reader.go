package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/internal/subject"
)

// The bounds of a batch. Unless it is configured otherwise, a server accepts at most 1,000
// messages in an atomic batch.
const (
	maxBatch      = 1000
	maxBatchBytes = 2 << 20
)

// errSource says that this reader cannot go on reading the source.
var errSource = errors.New("read the source")

// event is an event of the source.
type event = streamread.Message

// reader reads the source in order, behind a position.
type reader struct {
	*streamread.Tail
	stream jetstream.Stream
	whole  bool   // the filter matches all subjects: what is missing was removed
	last   uint64 // sequence of the event read last, at first the position
}

// newReader starts to read behind the sequence done.
func newReader(ctx context.Context, js jetstream.JetStream, source jetstream.Stream, filter string, done uint64) (*reader, error) {
	tail, err := streamread.OpenTail(ctx, js, source, filter, done+1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSource, err)
	}
	return &reader{tail, source, coversAll(filter, source.CachedInfo().Config), done}, nil
}

// coversAll reports whether the filter matches all that a stream with that configuration has.
func coversAll(filter string, cfg jetstream.StreamConfig) bool {
	return filter == ">" || cfg.Mirror == nil && len(cfg.Sources) == 0 && cfg.SubjectTransform == nil &&
		!slices.ContainsFunc(cfg.Subjects, func(s string) bool { return !subject.Covers(filter, s) })
}

// readBatch waits for an event, and returns it with those that have arrived already, up to
// the bounds of a batch. Lost is how many events before them the source has removed.
func (r *reader) readBatch(ctx context.Context) (batch []event, lost uint64, err error) {
	if batch, err = r.NextBatch(ctx, maxBatch, maxBatchBytes); err == nil {
		lost, err = r.countRemoved(ctx, batch)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errSource, err)
	}
	r.last = batch[len(batch)-1].Sequence
	return batch, lost, nil
}

// countRemoved counts the events that the source removed before they could be read. Between
// events that were read there may also be others that the filter does not match. Of what subjects
// those were that are gone nobody knows: then what is before the first one that the stream has
// counts as removed.
func (r *reader) countRemoved(ctx context.Context, batch []event) (n uint64, err error) {
	last := r.last
	missing := batch[len(batch)-1].Sequence - last - uint64(len(batch))
	if missing == 0 || r.whole {
		return missing, nil
	}
	info, err := r.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	for _, e := range batch {
		if end := min(info.State.FirstSeq, e.Sequence); end > last+1 {
			n += end - last - 1
		}
		last = e.Sequence
	}
	return n, nil
}
