package enrich

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

func (b *bed) recreate(cfg jetstream.StreamConfig) {
	b.Helper()
	if err := b.js.DeleteStream(b.Context(), cfg.Name); err != nil {
		b.Fatal(err)
	}
	b.stream(cfg)
}

var (
	ordersConfig = jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}}
	readyConfig  = jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowAtomicPublish: true}
)

// The source was deleted, recreated and filled in the middle of a turn: no
// event of the new stream is mistaken for the continuation of the old.
func TestSourceRecreatedInTheTurn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 10)
	e, _ := b.start(b.config())
	b.await(10)
	b.recreate(ordersConfig)
	b.publish(1, 20)
	natstest.Eventually(t, "the enricher stands still", func() bool {
		if n := b.count("READY"); n != 10 {
			t.Fatalf("%d events in the target, want 10", n)
		}
		return e.figures.reason() == "undecided"
	})
	if err := Resume(t.Context(), b.config(), 0, false); err != nil {
		t.Fatal(err)
	}
	b.await(30)
}

// The settings that decide the IDs of events are part of the record.
func TestOtherSettings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	_, stop := b.start(b.config())
	b.await(steps)
	stop()
	for changes, change := range map[string]func(c *Config){
		"id was segment:order, now segment:other":                                              func(c *Config) { c.ID = "segment:other" },
		"id was segment:order, now snowflake":                                                  func(c *Config) { c.ID = "snowflake" },
		"json was not set, now id; json-number was false, now true":                            func(c *Config) { c.JSON, c.JSONNumber = "id", true },
		"filter was orders.raw.>, now orders.raw.1; to was orders.ready.>, now orders.ready.1": func(c *Config) { c.Filter, c.To = "orders.raw.1", "orders.ready.1" },
		"from was ORDERS, now OTHER; filter was orders.raw.>, now other.>":                     func(c *Config) { c.From, c.Filter = "OTHER", "other.>" },
		"dead-letter was orders.dead, now not set":                                             func(c *Config) { c.DeadLetter = "" },
		"existing was keep, now refuse; dead-letter was orders.dead, now orders.ready.dead":    func(c *Config) { c.Existing, c.DeadLetter = Refuse, "orders.ready.dead" },
		"installation was one, now another":                                                    func(c *Config) { c.Installation = "another" },
	} {
		b.stream(jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
		cfg := b.config()
		if change(&cfg); cfg.Installation != "" {
			cfg.Installation = "one"
			e := b.open(cfg)
			if err := errors.Join(e.loadRecord(t.Context()), e.takeOver(t.Context())); err != nil {
				t.Fatal(err)
			}
			cfg.Installation = "another"
		}
		if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrUndecided) || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "settings: "+changes+";") {
			t.Errorf("%s: %v, want ErrUndecided and ErrConfig", changes, err)
		}
	}
	cfg := b.config()
	cfg.ID, cfg.Installation = "segment:other", "one"
	if err := Resume(t.Context(), cfg, steps, false); err != nil {
		t.Fatal(err)
	}
	b.publish(steps+1, 2*steps)
	b.start(cfg)
	b.await(2 * steps)
	b.expectAll(2 * steps)
}

// A restored record is behind the target: the headers there prove the position
// of the enrichment, and if they are gone it stops.
func TestRestoredRecord(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	_, stop := b.start(b.config())
	b.await(steps)
	stop()
	kv, err := b.js.KeyValue(t.Context(), BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	backup, err := kv.Get(t.Context(), "READY")
	if err != nil {
		t.Fatal(err)
	}
	b.publish(steps+1, 2*steps)
	_, stop = b.start(b.config())
	b.await(2 * steps)
	stop()
	if _, err := kv.Put(t.Context(), "READY", backup.Value()); err != nil {
		t.Fatal(err)
	}
	b.publish(2*steps+1, 3*steps)
	_, stop = b.start(b.config())
	b.await(3 * steps)
	b.expectAll(3 * steps)
	stop()
	if _, err := kv.Put(t.Context(), "READY", backup.Value()); err != nil {
		t.Fatal(err)
	}
	purge(b, 0)
	b.standsStill(b.config(), "is gone")
}

// A target stream may have any name; two names never share a key.
func TestRecordKey(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{"READY": "READY", "A@B": "A=40B", "A=40B": "A=3D40B", "Ä": "=C3=84"} {
		if got := recordKey(target); got != want {
			t.Errorf("key %s of stream %s, want %s", got, target, want)
		}
	}
	b := newBed(t)
	b.publish(1, 3)
	b.stream(jetstream.StreamConfig{Name: "BEREIT@Ä", Subjects: []string{"bereit.>"}, AllowAtomicPublish: true})
	cfg := b.config()
	cfg.To, cfg.DeadLetter = "bereit.>", ""
	b.start(cfg)
	natstest.Eventually(t, "all events", func() bool { return b.count("BEREIT@Ä") == 3 })
}
