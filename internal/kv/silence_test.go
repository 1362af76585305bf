package kv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// TestFeedWithoutItsLastEntries: a feed ends once the server is idle although it
// counted more entries, as after they have expired. A heartbeat of a feed that
// has caught up changes nothing.
func TestFeedWithoutItsLastEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{msgs: make(chan *nats.Msg, 3), open: t.Context(), silence: time.NewTimer(maxSilence), prefix: len("$KV.b."), delivered: 3}
		idle := &nats.Msg{Header: nats.Header{"Status": {"100"}, "Nats-Last-Consumer": {"3"}}}
		f.msgs <- idle
		f.msgs <- &nats.Msg{Subject: "$KV.b.x", Sub: &nats.Subscription{}, Reply: "$JS.ACK.KV_b.c.1.4.4.0.2"}
		if entry, err := f.next(t.Context(), maxSilence); err != nil || entry.Key != "x" {
			t.Fatalf("%v, %v", entry, err)
		}
		idle.Header.Set("Nats-Last-Consumer", "4")
		f.msgs <- idle
		began := time.Now()
		if _, err := f.next(t.Context(), maxSilence); !errors.Is(err, errFeedEnded) || time.Since(began) > 0 {
			t.Errorf("two entries are missing: %v after %v", err, time.Since(began))
		}
	})
}

// TestFeedTakesAsLongAsEntriesArrive: a feed lasts while entries or heartbeats
// arrive, and ends when the server falls silent.
func TestFeedTakesAsLongAsEntriesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const entries = 100
		f := &feed{msgs: make(chan *nats.Msg), open: t.Context(), silence: time.NewTimer(maxSilence), prefix: len("$KV.b."), pending: entries}
		ctx, cancel := context.WithCancel(t.Context())
		var sender sync.WaitGroup
		defer sender.Wait()
		defer cancel()
		send := func(m *nats.Msg) {
			time.Sleep(maxSilence * 9 / 10)
			select {
			case f.msgs <- m:
			case <-ctx.Done():
			}
		}
		sender.Go(func() {
			for i := range entries {
				send(&nats.Msg{Header: nats.Header{"Status": {"100"}}})
				send(&nats.Msg{Subject: "$KV.b.x", Sub: &nats.Subscription{}, Reply: fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.%d.0.%d", i+1, i+1, entries-i-1)})
			}
		})
		for i := range entries {
			if f.caughtUp() {
				t.Fatalf("caught up after %d entries", i)
			}
			if entry, err := f.next(t.Context(), maxSilence); err != nil || entry.Key != "x" {
				t.Fatalf("entry %d: %v, %v", i, entry, err)
			}
		}
		began := time.Now()
		if _, err := f.next(t.Context(), maxSilence); !f.caughtUp() || !errors.Is(err, errFeedEnded) || time.Since(began) != maxSilence {
			t.Errorf("%v after %v of silence, want an end after %v", err, time.Since(began), maxSilence)
		}
		for _, delivery := range []uint64{entries, entries + 2} { // twice; one is lost
			if _, err := f.decode(&nats.Msg{Subject: "$KV.b.x"}, &nats.MsgMetadata{Sequence: nats.SequencePair{Consumer: delivery}}); !errors.Is(err, errFeedEnded) {
				t.Errorf("delivery %d after %d: %v", delivery, entries, err)
			}
			f.delivered = entries
		}
	})
}
