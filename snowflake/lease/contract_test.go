package lease

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/natstest"
)

// buckets are the two buckets of the contract, and a function that deletes that
// of the leases.
type buckets struct {
	clocks, leases bucket
	server         server
	drop           func() error
}

// contractTTL is that of the bucket of leases in TestBuckets.
const contractTTL = time.Second

// TestBuckets: the fake, on which most tests of this package run, behaves as
// JetStream does.
func TestBuckets(t *testing.T) {
	t.Run("JetStream", func(t *testing.T) {
		t.Parallel()
		checkContract(t, jetStreamBuckets(t))
	})
	t.Run("fake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			clocks, leases := newFakeStore(0), newFakeStore(contractTTL)
			net := &fakeNet{rng: rand.New(rand.NewPCG(1, 1)), clocks: clocks, leases: leases, asked: make(map[string]int64)}
			checkContract(t, buckets{link{clocks, net}, link{leases, net}, net, func() error {
				leases.set(func() { leases.missing = true })
				return nil
			}})
		})
	})
}

func jetStreamBuckets(t *testing.T) buckets {
	js := newJS(t, natstest.Start(t))
	if err := Create(t.Context(), js, prefix, contractTTL, 1); err != nil {
		t.Fatal(err)
	}
	clocks, err := kv.Open(t.Context(), js, ClockBucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	leases, err := kv.OpenLeases(t.Context(), js, WorkersBucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	return buckets{kvBucket{js, clocks}, kvBucket{js, leases}, streamServer{clocks.Stream(), leases.Stream()}, func() error {
		return js.DeleteKeyValue(context.Background(), WorkersBucketName(prefix))
	}}
}

func checkContract(t *testing.T, b buckets) {
	checkWrites(t, b.clocks, b.server)
	checkExpiry(t, b.leases)
	if ttl, err := b.server.leaseTTL(t.Context()); err != nil || ttl != contractTTL {
		t.Errorf("TTL %v, %v, want %v", ttl, err, contractTTL)
	}
	if err := b.drop(); err != nil {
		t.Fatal(err)
	}
	_, update := b.leases.update(t.Context(), "7", []byte("x"), 0)
	_, get := b.leases.get(t.Context(), "7")
	for what, err := range map[string]error{"update": update, "get": get} {
		if err == nil || errors.Is(err, errConflict) || errors.Is(err, errAbsent) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s in a bucket that was deleted: %v", what, err)
		}
	}
}

// checkWrites: a write or a removal is made if the key is at the revision that
// it names, and not otherwise.
func checkWrites(t *testing.T, b bucket, s server) {
	write := func(what, key, value string, revision uint64, want error) (written uint64) {
		t.Helper()
		written, err := b.update(t.Context(), key, []byte(value), revision)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		return written
	}
	remove := func(what, key string, revision uint64, want error) {
		t.Helper()
		if err := b.remove(t.Context(), key, revision); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	found := func(key, value string, revision uint64) {
		t.Helper()
		if r, err := b.get(t.Context(), key); err != nil || r.key != key || string(r.value) != value || r.revision != revision || r.deleted {
			t.Errorf("got %+v, %v; want %q at %d", r, err, value, revision)
		}
	}
	before, err := s.state(t.Context())
	if err != nil || before.last != 0 {
		t.Errorf("%+v, %v", before, err)
	}
	if all, err := b.list(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v in an empty bucket", all, err)
	}
	if _, err := b.get(t.Context(), "1"); !errors.Is(err, errAbsent) {
		t.Errorf("a key that never was: %v", err)
	}
	first := write("first", "1", "a", 0, nil)
	write("if there is none, and there is", "1", "b", 0, errConflict)
	second := write("second", "1", "c", first, nil)
	write("over an old one", "1", "d", first, errConflict)
	write("over one that is to come", "1", "d", second+1, errConflict)
	found("1", "c", second)
	other := write("another key", "2", "e", 0, nil)
	remove("an old one", "1", first, errConflict)
	found("1", "c", second)
	remove("the latest", "1", second, nil)
	if _, err := b.get(t.Context(), "1"); !errors.Is(err, errAbsent) {
		t.Errorf("a key that was removed: %v", err)
	}
	write("over what was removed", "1", "f", second, errConflict)
	write("if there is none, and there is a marker", "1", "f", 0, errConflict)
	all, err := b.list(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	byKey := make(map[string]bucketEntry)
	for _, r := range all {
		byKey[r.key] = r
	}
	if r := byKey["2"]; string(r.value) != "e" || r.revision != other || r.deleted || r.created.IsZero() {
		t.Errorf("listed %+v", r)
	}
	marker := byKey["1"]
	if !marker.deleted || marker.revision <= other {
		t.Errorf("listed %+v, keys %v", marker, slices.Collect(maps.Keys(byKey)))
	}
	last := write("over the marker", "1", "g", marker.revision, nil)
	found("1", "g", last)
	after, err := s.state(t.Context())
	if err != nil || after.last != last || after.now.Before(before.now) {
		t.Errorf("asked the server: %+v, %v; before %+v", after, err, before)
	}
}

// checkExpiry: an entry expires after the TTL unless it is written again. It
// leaves nothing: it can be written as if it had never been there.
func checkExpiry(t *testing.T, b bucket) {
	if _, err := b.update(t.Context(), "left", []byte("a"), 0); err != nil {
		t.Fatal(err)
	}
	renewed := time.Now()
	revision, err := b.update(t.Context(), "renewed", []byte("a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "an entry expires", func() bool {
		began := time.Now()
		next, err := b.update(t.Context(), "renewed", []byte("a"), revision)
		if err != nil && time.Since(renewed) < contractTTL {
			t.Fatalf("an entry that was written %v ago: %v", time.Since(renewed), err)
		}
		if err != nil { // this process has had to wait for the TTL
			next, err = b.update(t.Context(), "renewed", []byte("a"), 0)
		}
		if err == nil {
			revision, renewed = next, began
		}
		_, err = b.get(t.Context(), "left")
		return errors.Is(err, errAbsent)
	})
	all, err := b.list(t.Context())
	if err != nil || slices.ContainsFunc(all, func(r bucketEntry) bool { return r.key == "left" }) {
		t.Errorf("%+v, %v", all, err)
	}
	if len(all) != 1 && time.Since(renewed) < contractTTL {
		t.Errorf("listed %+v, want the one that was written again", all)
	}
	if _, err := b.update(t.Context(), "left", []byte("a"), 0); err != nil {
		t.Errorf("a write of what is gone: %v", err)
	}
}

// leaderless is a stream whose replica answers without a leader.
type leaderless struct{ jetstream.Stream }

func (leaderless) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{}}, nil
}

func (leaderless) CachedInfo() *jetstream.StreamInfo { return &jetstream.StreamInfo{} }

// TestAnswerWithoutALeaderCountsForNothing: a server that was paused gives such
// an answer.
func TestAnswerWithoutALeaderCountsForNothing(t *testing.T) {
	s := streamServer{leaderless{}, leaderless{}}
	if _, err := s.state(t.Context()); !errors.Is(err, kv.ErrNoLeader) {
		t.Error(err)
	}
	if _, err := s.leaseTTL(t.Context()); !errors.Is(err, kv.ErrNoLeader) {
		t.Error(err)
	}
}
