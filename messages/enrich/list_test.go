package enrich

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// A record is removed on request, but not while an enricher is running. A later
// enrichment needs a decision, as after a lost record.
func TestRetire(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 5)
	cfg := b.config()
	cfg.timers = defaultTimers
	cfg.timers.heartbeat /= 10 // writes its record often while Retire watches
	_, stop := b.start(cfg)
	b.await(5)
	for want, streams := range map[error][2]string{ErrAtWork: {"ORDERS", "READY"}, ErrConfig: {"OTHER", "READY"}} {
		if _, err := Retire(t.Context(), b.js, "ids", streams[0], streams[1]); !errors.Is(err, want) {
			t.Errorf("retire %v: %v, want %v", streams, err, want)
		}
	}
	stop()
	if s, err := Retire(t.Context(), b.js, "ids", "ORDERS", "READY"); err != nil || s.Done != 5 {
		t.Errorf("retired at event %d, want 5: %v", s.Done, err)
	}
	if all, err := List(t.Context(), b.js, "ids"); err != nil || len(all) > 0 {
		t.Errorf("there are %v, want none: %v", all, err)
	}
	if _, err := Retire(t.Context(), b.js, "ids", "ORDERS", "READY"); !errors.Is(err, ErrConfig) {
		t.Errorf("retired again: %v, want ErrConfig", err)
	}
	b.standsStill(b.config(), "no enrichment record")
	b.resume(5)
	b.publish(6, 9)
	b.start(b.config())
	b.await(9)
	b.expectAll(9)
}

// TestListWhileOwnersWrite: an enrichment is listed also while its record is
// written again.
func TestListWhileOwnersWrite(t *testing.T) {
	t.Parallel()
	b, cfg, _ := bedWithLog(t)
	e, stop := b.start(cfg)
	natstest.Eventually(t, "the enricher has its turn", func() bool { return e.Figures().Turns > 0 })
	stop()
	records, err := b.js.KeyValue(t.Context(), BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := records.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	record, err := records.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	defer writers.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, _ = records.Put(ctx, keys[0], record.Value())
			}
		})
	}
	for range 300 {
		if all, err := List(t.Context(), b.js, messages.DefaultPrefix); err != nil || len(all) != 1 {
			t.Fatalf("%d enrichments, %v", len(all), err)
		}
	}
}
