package kv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// feeds is a bucket to read.
type feeds struct {
	*testing.T
	js jetstream.JetStream
	kv jetstream.KeyValue
}

func newFeeds(t *testing.T) feeds {
	f := feeds{T: t, js: natstest.JetStream(t, natstest.Start(t).Connect(t))}
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

func (f *feeds) open() *feed {
	f.Helper()
	feed, err := openFeed(f.Context(), f.js, "b")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(feed.close)
	return feed
}

// expect reads entries.
func (f *feeds) expect(feed *feed, want ...string) {
	f.Helper()
	for i, key := range want {
		ctx, cancel := context.WithTimeout(f.Context(), natstest.Patience)
		entry, err := feed.next(ctx, maxSilence)
		cancel()
		got := entry.Key
		if entry.Deleted {
			got = "-" + got
		}
		if err != nil || got != key {
			f.Fatalf("entry %d is %s, %v; want %s", i, got, err, key)
		}
	}
	if !feed.caughtUp() {
		f.Fatal("has not caught up after the last entry")
	}
}

// TestFeed: all entries, and then those that are written.
func TestFeed(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	if !f.open().caughtUp() {
		t.Error("an empty bucket has more to come")
	}
	f.put("a", "b", "c", "b")
	feed := f.open()
	f.expect(feed, "a", "c", "b")
	f.put("d")
	if err := f.kv.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	f.expect(feed, "d", "-a")
}

// TestFeedOfHostileEntries: an entry without a value is no control message,
// whatever its headers are.
func TestFeedOfHostileEntries(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	for i, header := range []nats.Header{
		{"Status": {"100"}}, {"Status": {"503"}}, {"Status": {"100"}, "Nats-Last-Consumer": {"7"}},
		{"Status": {"100"}, "Nats-Consumer-Stalled": {"$KV.b.stalled"}},
	} {
		if _, err := f.js.PublishMsg(t.Context(), &nats.Msg{Subject: fmt.Sprint("$KV.b.", i), Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	f.expect(f.open(), "0", "1", "2", "3")
}

// TestFeedEnds after its consumer was deleted, which only silence reveals.
func TestFeedEnds(t *testing.T) {
	t.Parallel()
	f := newFeeds(t)
	f.put("a")
	feed := f.open()
	f.expect(feed, "a")
	if err := f.js.DeleteKeyValue(f.Context(), "b"); err != nil {
		f.Fatal(err)
	}
	f.make()
	f.put("a", "b")
	if entry, err := feed.next(t.Context(), maxSilence); !errors.Is(err, errFeedEnded) {
		t.Fatalf("got %v, %v, want errFeedEnded", entry, err)
	}
}

// TestFeedOutlivesManyEntries: the server holds back messages for a slow
// reader, and none is lost. Of two big feeds of a process, the second begins when
// the first has caught up.
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
	feed := f.open()
	second := make(chan struct{})
	go func() {
		defer close(second)
		if other, err := openFeed(f.Context(), f.js, "b"); err == nil {
			other.close()
		}
	}()
	for i := range n {
		select {
		case <-second:
			t.Fatalf("a second reader began after %d entries of the first", i)
		default:
		}
		entry, err := feed.next(t.Context(), maxSilence)
		if err != nil || entry.Key != fmt.Sprintf("%05d", i) {
			t.Fatalf("entry %d is %s, %v", i, entry.Key, err)
		}
	}
	f.expect(feed)
	<-second
}

// TestListAllWhileOthersWrite: a list has every key, also those that are written
// again all the time.
func TestListAllWhileOthersWrite(t *testing.T) {
	t.Parallel()
	const keys, lists = 8, 300
	f := newFeeds(t)
	write := func(key int) {
		if _, err := f.kv.PutString(t.Context(), strconv.Itoa(key), "value"); err != nil {
			t.Error(err)
		}
	}
	for key := range keys {
		write(key)
	}
	done := make(chan struct{})
	var writers sync.WaitGroup
	for key := range keys {
		writers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					write(key)
				}
			}
		})
	}
	for range lists {
		found := make(map[string]bool)
		err := ListAll(t.Context(), f.js, "b", ByConsumer, func(e Entry) bool {
			found[strings.Clone(e.Key)] = true
			return true
		})
		if err != nil || len(found) != keys {
			t.Errorf("%d of %d keys, %v", len(found), keys, err)
			break
		}
	}
	close(done)
	writers.Wait()
}
