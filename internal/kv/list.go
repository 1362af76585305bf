package kv

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

// List passes all entries of a bucket to visit, in the order of their
// revisions. It needs no leader: a lagging replica and concurrent writes may
// hide some. It lasts while entries arrive. A missing bucket is
// jetstream.ErrStreamNotFound.
func List(ctx context.Context, js jetstream.JetStream, bucket string, visit func(Entry)) error {
	feed, err := openFeed(ctx, js, bucket)
	if err != nil {
		return err
	}
	defer feed.close()
	for !feed.caughtUp() {
		entry, err := feed.next(ctx, maxSilence)
		if err != nil {
			return err
		}
		visit(entry)
	}
	return nil
}

// lagPatience bounds the wait of ListAll for entries that its server lacks, and
// the time that it reads what others write. lagLook is the pause between looks
// at the leader.
const (
	lagPatience = 5 * time.Second
	lagLook     = 250 * time.Millisecond
)

var errLags = errors.New("the replica lags behind its leader")

// Way is how [ListAll] reads a bucket.
type Way int

const (
	// ByConsumer has the server send the entries. It needs rights.WatchBucket.
	// Entries come from a replica, which may lag behind.
	ByConsumer Way = iota

	// ByRequests requests each entry from the leader. That takes several times
	// as long, and needs rights.ReadBucket alone. A user who may create a
	// consumer may have the server send a bucket's entries to any subject.
	ByRequests
)

// ListAll passes all entries of a bucket to visit, also those that others write
// at the same time, until visit returns false. An entry that is written again
// may be passed twice, the later one last. A missing bucket is
// jetstream.ErrStreamNotFound.
//
// A server's count of the entries to come leaves out one that is being written
// again. The list is complete once it has as many different keys as the leader
// then has entries, none of which is ever deleted without a marker.
func ListAll(ctx context.Context, js jetstream.JetStream, bucket string, way Way, visit func(Entry) bool) error {
	if way == ByRequests {
		return listByRequests(ctx, js, bucket, visit)
	}
	feed, err := openFeed(ctx, js, bucket)
	if err != nil {
		return err
	}
	defer feed.close()
	seed, keys := maphash.MakeSeed(), make(map[uint64]struct{})
	latest, caughtUp := time.Now(), time.Time{}
	for {
		wait := maxSilence
		if feed.caughtUp() {
			stream, err := js.Stream(ctx, StreamName(bucket))
			if err != nil || uint64(len(keys)) >= stream.CachedInfo().State.Msgs {
				return err
			}
			if caughtUp.IsZero() {
				caughtUp = time.Now()
			}
			switch {
			case time.Since(latest) > lagPatience:
				return errLags
			case time.Since(caughtUp) > lagPatience: // new keys are made all the time
				return nil
			}
			wait = lagLook
		}
		switch e, err := feed.next(ctx, wait); {
		case err == nil:
			latest = time.Now()
			keys[maphash.String(seed, e.Key)] = struct{}{}
			if !visit(e) {
				return nil
			}
		case wait == maxSilence, !errors.Is(err, errSilent):
			return err
		}
	}
}

// Latest returns the latest entry of each key, as [ListAll] finds them.
func Latest(ctx context.Context, js jetstream.JetStream, bucket string, way Way) (map[string]Entry, error) {
	all := make(map[string]Entry)
	err := ListAll(ctx, js, bucket, way, func(e Entry) bool {
		all[strings.Clone(e.Key)] = e
		return true
	})
	return all, err
}

// Values returns the values of a bucket by key, as [ListAll] finds them by a
// consumer.
func Values(ctx context.Context, js jetstream.JetStream, bucket string) (map[string]string, error) {
	found, err := Latest(ctx, js, bucket, ByConsumer)
	values := make(map[string]string, len(found))
	for key, e := range found {
		if !e.Deleted {
			values[key] = string(e.Value)
		}
	}
	return values, err
}

// listByRequests is [ListAll] by requests. It compares its end with the leader,
// too.
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
