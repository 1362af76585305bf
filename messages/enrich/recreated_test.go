package enrich

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// Tests of streams that were deleted and created again under the same name, and
// of how an enrichment tells why it has stopped.

// bedWithLog is a bed, the settings of an enricher with hasty timers, and its
// log.
func bedWithLog(t *testing.T) (*bed, Config, *observer.ObservedLogs) {
	t.Helper()
	b := newBed(t)
	core, logs := observer.New(zap.InfoLevel)
	cfg := b.hastyConfig()
	cfg.Log = zap.New(core)
	return b, cfg, logs
}

// tells fails the test unless log, readiness and record name the reason why an
// enricher has stopped.
func (b *bed) tells(e *Enricher, logs *observer.ObservedLogs, why string) {
	b.Helper()
	natstest.Eventually(b, "the enrichment stops: "+why, func() bool {
		err := e.Ready()
		return err != nil && strings.Contains(err.Error(), why)
	})
	natstest.Eventually(b, "the log names the reason", func() bool {
		return logs.Filter(func(entry observer.LoggedEntry) bool {
			text, _ := entry.ContextMap()["error"].(string)
			return entry.Message == "enrichment failing; retrying" && strings.Contains(text, why)
		}).Len() > 0
	})
	natstest.Eventually(b, "the record names the reason", func() bool { return strings.Contains(b.failing(), why) })
}

// failing returns the reason in the record.
func (b *bed) failing() string {
	b.Helper()
	all, err := List(b.Context(), b.js, messages.DefaultPrefix)
	if err != nil || len(all) != 1 {
		b.Fatal(all, err)
	}
	return all[0].Failing
}

// A source that was deleted and created again is another one, whatever it holds
// and whatever was enriched of the first. The enrichment stops and says why.
// Resumed, it enriches all that the new source holds, once.
func TestSourceRecreated(t *testing.T) {
	t.Parallel()
	enriched := map[string]func(b *bed, cfg Config) (n int){
		"nothing": func(b *bed, _ Config) int {
			b.publish(1, 50)
			b.purge("ORDERS")
			return 0
		},
		"nothing since resumed": func(b *bed, cfg Config) int {
			b.publish(1, 50)
			b.purge("ORDERS")
			if err := Resume(b.Context(), cfg, 50, false); err != nil {
				b.Fatal(err)
			}
			return 0
		},
		"some": func(b *bed, _ Config) int {
			b.publish(1, 20)
			return 20
		},
	}
	holds := map[string]func(b *bed) (from int){
		"all": func(b *bed) int {
			b.publish(1, 60)
			return 1
		},
		"the last": func(b *bed) int {
			limited := ordersConfig
			limited.MaxMsgs = 40
			b.stream(limited)
			b.publish(1, 60)
			b.stream(ordersConfig)
			return 21
		},
		"nothing": func(b *bed) int {
			b.publish(1, 60)
			b.purge("ORDERS")
			return 61
		},
	}
	for before, enrich := range enriched {
		for now, fill := range holds {
			for _, running := range []bool{false, true} {
				t.Run(fmt.Sprintf("enriched %s, now holds %s, running %v", before, now, running), func(t *testing.T) {
					t.Parallel()
					b, cfg, logs := bedWithLog(t)
					done := enrich(b, cfg)
					e, stop := b.start(cfg)
					natstest.Eventually(t, "the enricher has its turn", func() bool { return e.Figures().Turns > 0 })
					b.await(uint64(done))
					if !running {
						stop()
					}
					b.recreate(ordersConfig)
					from := fill(b)
					if !running {
						e, _ = b.start(cfg)
					}
					b.tells(e, logs, ErrUndecided.Error())
					if n := b.count("READY"); n != uint64(done) {
						t.Errorf("%d events in the target, want %d", n, done)
					}
					after := uint64(0)
					if from > done { // those through done are gone in either source
						after = uint64(done)
					}
					if err := Resume(t.Context(), cfg, after, false); err != nil {
						t.Fatal(err)
					}
					b.publish(61, 61)
					b.await(uint64(done + 62 - from))
					for i, msg := range b.stored("READY", "orders.ready.>")[done:] {
						if got, want := string(msg.Data()), fmt.Sprint(from+i); got != want {
							t.Fatalf("event %s at place %d, want %s", got, i, want)
						}
					}
					natstest.Eventually(t, "the enrichment works", func() bool { return e.Ready() == nil && b.failing() == "" })
				})
			}
		}
	}
}

// purge removes all messages of a stream.
func (b *bed) purge(stream string) {
	b.Helper()
	s, err := b.js.Stream(b.Context(), stream)
	if err == nil {
		err = s.Purge(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// A target that was deleted and created again is another one, even if it is
// empty as before, or others have filled it up and were consumed.
func TestTargetRecreated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ events, others int }{{0, 0}, {20, 20}, {20, 25}} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v, running %v", c, running), func(t *testing.T) {
				t.Parallel()
				b, cfg, logs := bedWithLog(t)
				if c.events > 0 {
					b.publish(1, c.events)
				}
				e, stop := b.start(cfg)
				natstest.Eventually(t, "the enricher has its turn", func() bool { return e.Figures().Turns > 0 })
				b.await(uint64(c.events))
				if !running {
					stop()
				}
				b.recreate(readyConfig)
				for range c.others {
					if _, err := b.js.Publish(t.Context(), "orders.dead", nil); err != nil {
						t.Fatal(err)
					}
				}
				b.purge("READY")
				if !running {
					e, _ = b.start(cfg)
				}
				b.tells(e, logs, "stream READY was created again")
				if err := Resume(t.Context(), cfg, 0, true); err != nil {
					t.Fatal(err)
				}
				b.publish(c.events+1, c.events+1)
				b.await(uint64(c.others + c.events + 1))
				b.expectAll(c.events + 1)
			})
		}
	}
}

// An owner dies with a saved plan, and another publisher's message takes the
// place of its first event and is consumed: a missing message proves nothing.
func TestForeignMessageIsConsumed(t *testing.T) {
	t.Parallel()
	b, cfg, logs := bedWithLog(t)
	b.publish(1, steps)
	crashed(b, 0)
	if _, err := b.js.Publish(t.Context(), "orders.ready.x", nil); err != nil {
		t.Fatal(err)
	}
	b.purge("READY")
	e, _ := b.start(cfg)
	b.tells(e, logs, "sequence 1 of stream READY is gone")
	if err := Resume(t.Context(), cfg, 0, true); err != nil {
		t.Fatal(err)
	}
	b.await(1 + steps)
	b.expectAll(steps)
}

// The log names each reason of an outage, at most every two seconds. Texts that
// differ in numbers have the same reason.
func TestReasonsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := figures{stops: map[string]int64{}}
		for i, c := range []struct {
			text        string
			pause       time.Duration
			first, news bool
		}{
			{"source away", 0, true, true},
			{"target at 7", time.Second, false, false},
			{"target at 8", time.Second, false, true},
			{"target at 9", time.Hour, false, false},
			{"source away", time.Second, false, true},
		} {
			time.Sleep(c.pause)
			if first, news := f.countFailure(errSource, c.text); first != c.first || news != c.news || f.failure() != c.text {
				t.Errorf("%d: first %v, news %v, %q", i, first, news, f.failure())
			}
		}
		f.endOutage()
		if first, news := f.countFailure(errSource, "source away"); !first || !news {
			t.Error("the next outage is not logged")
		}
	})
}

// A range of IDs that ends at 2^63-1 ends there, and a missing ID is no ID.
func TestLastID(t *testing.T) {
	t.Parallel()
	p := idPool{ranges: []messages.Range{{First: math.MaxInt64 - 1, Last: math.MaxInt64}}}
	for _, want := range []int64{math.MaxInt64 - 1, math.MaxInt64} {
		if id, err := p.nextID(); id != want || err != nil {
			t.Errorf("ID %d, %v, want %d", id, err, want)
		}
	}
	if id, err := p.nextID(); !errors.Is(err, errNoIDs) {
		t.Errorf("ID %d, %v, want none", id, err)
	}
}

// A target that takes other subjects too, and removes messages, is named; one
// that copies a stream is refused.
func TestCheckTarget(t *testing.T) {
	t.Parallel()
	s := Standing{To: "orders.ready.>", settings: Config{To: "orders.ready.>", DeadLetter: "orders.dead"}.withDefaults().settings()}
	loses := readyConfig
	loses.MaxAge = time.Hour
	mixed := readyConfig
	mixed.Subjects = append([]string{"other"}, mixed.Subjects...)
	both, copied := mixed, readyConfig
	both.Retention = jetstream.WorkQueuePolicy
	copied.Sources = []*jetstream.StreamSource{{Name: "OTHER"}}
	for _, c := range []struct {
		target jetstream.StreamConfig
		want   error
	}{{readyConfig, nil}, {loses, nil}, {mixed, nil}, {both, ErrMixedTarget}, {copied, ErrConfig}} {
		if err := s.CheckTarget(c.target); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.target, err, c.want)
		}
	}
}
