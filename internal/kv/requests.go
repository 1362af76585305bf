package kv

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

type withoutConsumers struct{}

// WithoutConsumers makes [List], [ListAll], [Latest] and [Values] request each
// entry from the leader instead of creating a consumer. That takes several
// times as long, and needs rights.ReadBucket alone. A user who may create a
// consumer may have the server send a bucket's entries to any subject.
func WithoutConsumers(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutConsumers{}, true)
}

// Count returns how many keys of a bucket match one of the patterns, which must
// not overlap. Deleted keys count. The server counts, which takes it 20 ms for a
// million keys that match; a lagging replica may count too few.
func Count(ctx context.Context, js jetstream.JetStream, bucket string, patterns ...string) (int64, error) {
	subjects := make([]string, len(patterns))
	for i, pattern := range patterns {
		subjects[i] = "$KV." + bucket + "." + pattern
	}
	// A consumer of which nothing is read, and which the server removes.
	consumer, err := js.CreateConsumer(ctx, StreamName(bucket), jetstream.ConsumerConfig{
		Name: nuid.Next(), FilterSubjects: subjects, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Second,
	})
	if err != nil {
		return 0, fmt.Errorf("bucket %s: count: %w", bucket, err)
	}
	return int64(consumer.CachedInfo().NumPending), nil
}

// listByRequests is [ListAll] by requests.
func listByRequests(ctx context.Context, js jetstream.JetStream, bucket string, visit func(Entry) bool) error {
	stream, err := js.Stream(ctx, StreamName(bucket))
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	reader := streamread.Open(js, stream, "", state.FirstSeq, state.LastSeq).WithoutConsumer()
	defer reader.Close()
	seed, keys := maphash.MakeSeed(), make(map[uint64]struct{})
	for caughtUp := (time.Time{}); ; {
		m, err := reader.Next(ctx)
		if err == nil {
			e := Entry{m.Subject[len("$KV."+bucket+"."):], m.Data, isDeletion(m.Header), m.Sequence, m.Time}
			keys[maphash.String(seed, e.Key)] = struct{}{}
			if !visit(e) {
				return nil
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if caughtUp.IsZero() {
			caughtUp = time.Now()
		}
		// An entry that was written again before its turn has a later place.
		info, err := stream.Info(ctx)
		if err != nil || uint64(len(keys)) >= info.State.Msgs || time.Since(caughtUp) > lagPatience {
			return err
		}
		reader.Extend(info.State.LastSeq)
		pause.For(ctx, lagLook)
	}
}
