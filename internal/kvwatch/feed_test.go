package kvwatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/testing/natstest"
)

// feeds is a bucket to read.
type feeds struct {
	*testing.T
	js jetstream.JetStream
	kv jetstream.KeyValue
}

func newFeeds(t *testing.T) feeds {
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	f := feeds{T: t, js: js}
	f.make()
	return f
}

func (f *feeds) make() {
	natstest.CreateBucket(f, f.js, "b")
	kv, err := f.js.KeyValue(f.Context(), "b")
	if err != nil {
		f.Fatal(err)
	}
	f.kv = kv
}

func (f *feeds) put(keys ...string) {
	f.Helper()
	for _, key := range keys {
		if _, err := f.kv.Put(f.Context(), key, []byte("value of "+key)); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *feeds) open(after kvwatch.Position) *kvwatch.Feed {
	f.Helper()
	feed, err := kvwatch.OpenFeed(f.Context(), f.js, "b", after)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(feed.Close)
	return feed
}

// expect reads entries, and returns the position of the last.
func (f *feeds) expect(feed *kvwatch.Feed, want ...string) (at kvwatch.Position) {
	f.Helper()
	for i, key := range want {
		ctx, cancel := context.WithTimeout(f.Context(), natstest.Patience)
		entry, err := feed.Next(ctx)
		cancel()
		got := entry.Key
		if entry.Deleted {
			got = "-" + got
		}
		if err != nil || got != key {
			f.Fatalf("entry %d is %s, %v; want %s", i, got, err, key)
		}
		at = entry.Position
	}
	if !feed.CaughtUp() {
		f.Fatal("has not caught up after the last entry")
	}
	return at
}

// TestFeedGoesOn from where another one ended, with what has changed since and nothing else.
func TestFeedGoesOn(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	if !f.open(kvwatch.Position{}).CaughtUp() {
		t.Error("an empty bucket has more to come")
	}
	f.put("a", "b", "c")
	first := f.open(kvwatch.Position{})
	at := f.expect(first, "a", "b", "c")
	f.put("d")
	if err := f.kv.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	f.expect(first, "d", "-a")
	at = f.expect(f.open(at), "d", "-a") // not c again
	f.expect(f.open(at))
	f.put("b")
	f.expect(f.open(at), "b")
}

// TestFeedKnowsTheBucket: one that does not have the entry that was read last is not read on, whether
// it was made again, with fewer or more entries, went back, or the entry was written again.
func TestFeedKnowsTheBucket(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*feeds){
		"empty":     func(f *feeds) { f.again() },
		"fewer":     func(f *feeds) { f.again(); f.put("a") },
		"as many":   func(f *feeds) { f.again(); f.put("a", "b", "c") },
		"more":      func(f *feeds) { f.again(); f.put("a", "b", "c", "d", "e") },
		"rewritten": func(f *feeds) { f.put("c") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeeds(t)
			f.put("a", "b", "c")
			at := f.expect(f.open(kvwatch.Position{}), "a", "b", "c")
			change(&f)
			if _, err := kvwatch.OpenFeed(t.Context(), f.js, "b", at); !errors.Is(err, kvwatch.ErrOther) {
				t.Fatalf("got %v, want ErrOther", err)
			}
		})
	}
}

// again makes the bucket a second time.
func (f *feeds) again() {
	f.Helper()
	if err := f.js.DeleteKeyValue(f.Context(), "b"); err != nil {
		f.Fatal(err)
	}
	f.make()
}

// TestFeedEnds when its consumer is gone, which only silence tells.
func TestFeedEnds(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	f.put("a")
	feed := f.open(kvwatch.Position{})
	f.expect(feed, "a")
	f.again()
	f.put("a", "b")
	if entry, err := feed.Next(t.Context()); !errors.Is(err, kvwatch.ErrEnded) {
		t.Fatalf("got %v, %v, want ErrEnded", entry, err)
	}
}

// TestFeedOutlivesManyEntries: the server holds back what is read slowly, and none is lost. Of two that read
// many on one connection, the second begins when the first has read them.
func TestFeedOutlivesManyEntries(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	const n = 21_000
	for i := range n {
		if _, err := f.js.PublishAsync(fmt.Sprintf("$KV.b.%05d", i), make([]byte, 512)); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 {
			<-f.js.PublishAsyncComplete()
		}
	}
	feed := f.open(kvwatch.Position{})
	second := make(chan struct{})
	go func() {
		defer close(second)
		if other, err := kvwatch.OpenFeed(f.Context(), f.js, "b", kvwatch.Position{}); err == nil {
			other.Close()
		}
	}()
	for i := range n {
		select {
		case <-second:
			t.Fatalf("a second reader began after %d entries of the first", i)
		default:
		}
		entry, err := feed.Next(t.Context())
		if err != nil || entry.Key != fmt.Sprintf("%05d", i) {
			t.Fatalf("entry %d is %s, %v", i, entry.Key, err)
		}
	}
	f.expect(feed)
	<-second
}

// TestTurn: one at a time has it, the next one as soon as it is released, or a moment after its owner
// has gone without a word.
func TestTurn(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	f.put("a", "b")
	take := func() (*kvwatch.Feed, error) {
		return kvwatch.TakeTurn(t.Context(), f.js, "b", "role", kvwatch.Position{})
	}
	first, err := take()
	if err != nil {
		t.Fatal(err)
	}
	f.expect(first, "a", "b")
	if _, err := take(); !errors.Is(err, kvwatch.ErrTaken) {
		t.Fatalf("a second turn: %v, want ErrTaken", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := take()
	if err != nil {
		t.Fatalf("after a release: %v", err)
	}
	f.expect(second, "a", "b")
	second.Close() // as if it had died
	natstest.Eventually(t, "the turn to be free", func() bool {
		third, err := take()
		if err == nil {
			third.Close()
		}
		return err == nil
	})
}
