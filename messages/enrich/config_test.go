package enrich

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// Settings that cannot work are refused at the start, and the error names the
// allowed values.
func TestBadEnrichments(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, cfg := range []jetstream.StreamConfig{
		{Name: "PLAIN", Subjects: []string{"plain.>"}},
		{Name: "QUEUE", Subjects: []string{"queue.>"}, Retention: jetstream.WorkQueuePolicy},
		{Name: "SILENT", Subjects: []string{"silent.>"}, AllowAtomicPublish: true, NoAck: true},
		{Name: "LOUD", Subjects: []string{"loud.>"}, AllowAtomicPublish: true, RePublish: &jetstream.RePublish{Source: ">", Destination: "orders.raw.again.>"}},
		{Name: "COPY", Subjects: []string{"copy.>"}, Sources: []*jetstream.StreamSource{{Name: "READY"}}},
		{Name: "SEALED", Subjects: []string{"sealed.>"}, AllowAtomicPublish: true},
		{Name: "SEALED", Subjects: []string{"sealed.>"}, AllowAtomicPublish: true, Sealed: true, DenyDelete: true, DenyPurge: true},
		{Name: "DEAD", Subjects: []string{"dead"}},
		{Name: "FED", Subjects: []string{"fed"}, Sources: []*jetstream.StreamSource{{Name: "DEAD"}}},
		{Name: "MIRROR", Mirror: &jetstream.StreamSource{Name: "DEAD"}},
	} {
		b.stream(cfg)
	}
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"no source", func(c *Config) { c.From = "" }, "want the name of a stream"},
		{"unknown source", func(c *Config) { c.From = "NONE" }, "no stream NONE"},
		{"source is a pattern", func(c *Config) { c.From = "*" }, "want the name of a stream"},
		{"work queue", func(c *Config) { c.From, c.Filter = "QUEUE", "queue.>" }, "want limits"},
		{"filter elsewhere", func(c *Config) { c.Filter = "invoices.>" }, "matches filter"},
		{"bad filter", func(c *Config) { c.Filter = "orders..raw" }, "want a subject"},
		{"no target", func(c *Config) { c.To = "" }, "want a subject"},
		{"unknown target", func(c *Config) { c.To = "nowhere.>" }, "no stream takes"},
		{"wildcards", func(c *Config) { c.To = "orders.ready.*" }, "needs the wildcards"},
		{"half of the target", func(c *Config) { c.To = "orders.>" }, "loops back"},
		{"loop", func(c *Config) { c.To = "orders.raw.x.>" }, "loops back"},
		{"loop by republish", func(c *Config) { c.To = "loud.>" }, "republishes"},
		{"loop by source", func(c *Config) { c.From, c.Filter = "COPY", "orders.ready.>"; c.To = "orders.ready.>" }, "loops back"},
		{"no batches", func(c *Config) { c.To = "plain.>" }, "does not allow atomic batches"},
		{"sealed", func(c *Config) { c.To = "sealed.>" }, "sealed"},
		{"stop behind a filter", func(c *Config) { c.Filter, c.To, c.OnLoss = "orders.raw.*", "orders.ready.all", Stop }, "stop on loss"},
		{"stop behind a subject", func(c *Config) { c.Filter, c.To, c.OnLoss = "orders.raw.1", "orders.ready.all", Stop }, "stop on loss"},
		{"copying target", func(c *Config) { c.To = "fed" }, "copies stream DEAD"},
		{"no acks", func(c *Config) { c.To = "silent.>" }, "no_ack"},
		{"kind", func(c *Config) { c.ID = "uuid" }, "want snowflake, or segment:TAG"},
		{"tag", func(c *Config) { c.ID = "segment:a b" }, "malformed tag"},
		{"no tag", func(c *Config) { c.ID = "segment:" }, "segment:TAG"},
		{"wildcard too high", func(c *Config) { c.ID = "segment:{{wildcard(1)}}" }, "has 0 *"},
		{"path", func(c *Config) { c.JSON = "a..b" }, "JSON path"},
		{"path with an index", func(c *Config) { c.JSON = "a.0" }, "JSON path"},
		{"path with a modifier", func(c *Config) { c.JSON = "@this" }, "JSON path"},
		{"number without path", func(c *Config) { c.JSONNumber = true }, "without a JSON path"},
		{"existing", func(c *Config) { c.Existing = "drop" }, "keep, refuse"},
		{"dead letters nowhere", func(c *Config) { c.DeadLetter = "nowhere" }, "no stream takes dead-letter"},
		{"dead letters loop", func(c *Config) { c.DeadLetter = "orders.raw.dead" }, "loops back"},
		{"dead letters copied", func(c *Config) { c.From, c.Filter, c.DeadLetter = "FED", ">", "dead" }, "loops back: stream FED copies stream DEAD"},
		{"dead letters mirrored", func(c *Config) { c.From, c.Filter, c.DeadLetter = "MIRROR", ">", "dead" }, "loops back: stream MIRROR copies stream DEAD"},
		{"dead letters pattern", func(c *Config) { c.DeadLetter = "orders.*" }, "without wildcards"},
		{"prefix", func(c *Config) { c.Prefix = "A" }, "prefix"},
	} {
		cfg := b.config()
		c.change(&cfg)
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		} else if !errors.Is(err, ErrConfig) && c.name != "prefix" {
			t.Errorf("%s: %v is no ErrConfig", c.name, err)
		}
	}
}

// The error about a target carries the subject and the stream as fields.
func TestTargetErrors(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.stream(jetstream.StreamConfig{Name: "PLAIN", Subjects: []string{"plain.>"}})
	for to, stream := range map[string]string{"nowhere.>": "", "plain.>": "PLAIN"} {
		cfg := b.config()
		cfg.To = to
		_, err := Open(t.Context(), cfg)
		var got *TargetError
		if !errors.Is(err, ErrConfig) || !errors.As(err, &got) || got.Subject != to || got.Stream != stream {
			t.Errorf("target %s: %v, want a TargetError that names the stream %q", to, err, stream)
		}
	}
}
