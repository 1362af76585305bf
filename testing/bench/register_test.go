package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/worker"
)

const (
	registerRounds = 9
	registerTags   = 16 // reserved for at the same time
	registerCalls  = 25 // for each tag, in each round
)

// BenchmarkRegister measures reservations for 16 tags at once through the
// register, beside a bare compare-and-set on the same bucket. With a database,
// the bare table is measured in the same rounds.
func BenchmarkRegister(b *testing.B) {
	b.Run("jetstream", func(b *testing.B) { benchmarkRegister(b, "jetstream", nil) })
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) { benchmarkRegister(b, d.name, openTable(b, d.start(b).DB)) })
	}
}

func benchmarkRegister(b *testing.B, name string, table store.Database) {
	home := newSite(b, natstest.Start(b, syncAlways), worker.Config{}, table)
	s := home.register
	var watching sync.WaitGroup
	watching.Go(func() { s.Run(b.Context(), nil) })
	b.Cleanup(watching.Wait)
	home.createTags(registerTags, "tag", store.Trend)
	bare := casOn(b, home.js)
	sides := []func() measured{
		func() measured {
			return reservations(b, func(ctx context.Context, tag string, n int64) (store.Segment, error) {
				grant, err := storetest.Reserve(ctx, s, tag, n)
				return grant.Segment, err
			})
		},
		func() measured { return reservations(b, bare) },
	}
	beside := []string{"bare compare-and-set"}
	if table != nil {
		sides, beside = append(sides, func() measured { return reservations(b, table.Reserve) }), append(beside, "bare table")
	}
	figures := inTurns(registerRounds, sides...)
	for i, what := range beside {
		addRegister(b, name, what, figures[0], figures[1+i])
	}
	b.ReportMetric(0, "ns/op")
}

// addRegister adds rows to the table: the register beside a baseline.
func addRegister(b *testing.B, name, beside string, subject, baseline []measured) {
	for _, f := range []struct {
		what, unit string
		field      func(measured) float64
	}{
		{"reservations", "/s", func(m measured) float64 { return m.rate }},
		{"p50", "µs", func(m measured) float64 { return m.p50 }},
		{"p99", "µs", func(m measured) float64 { return m.p99 }},
	} {
		ratio := medianRatio(column(subject, f.field), column(baseline, f.field))
		b.ReportMetric(ratio, fmt.Sprintf("%s/%s", f.what, beside[len("bare "):]))
		table.add(row{
			what: "register, " + name + ": " + f.what, unit: f.unit, beside: beside, ratio: ratio,
			subject: median(column(subject, f.field)), baseline: median(column(baseline, f.field)),
		})
	}
}

func registerTag(n int) string { return fmt.Sprintf("tag%d", n) }

// reservations measures calls for all tags at once, sequential for each tag.
func reservations(b *testing.B, reserve func(context.Context, string, int64) (store.Segment, error)) (m measured) {
	took := make([][]time.Duration, registerTags)
	began := time.Now()
	var group sync.WaitGroup
	for n := range registerTags {
		group.Go(func() {
			for range registerCalls {
				sent := time.Now()
				if _, err := reserve(b.Context(), registerTag(n), 1000); err != nil {
					b.Error(err)
				}
				took[n] = append(took[n], time.Since(sent))
			}
		})
	}
	group.Wait()
	m.rate = registerTags * registerCalls / time.Since(began).Seconds()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	m.p50, m.p99 = micros(percentile(all, 0.5)), micros(percentile(all, 0.99))
	return m
}

// casOn reserves with nothing but a compare-and-set on the register's bucket:
// no poll, no check, and keys of its own.
func casOn(b *testing.B, js jetstream.JetStream) func(context.Context, string, int64) (store.Segment, error) {
	b.Helper()
	kv, err := js.KeyValue(b.Context(), register.BucketName(messages.DefaultPrefix))
	if err != nil {
		b.Fatal(err)
	}
	revisions, ends := make(map[string]*uint64), make(map[string]*int64)
	for n := range registerTags {
		revisions[registerTag(n)], ends[registerTag(n)] = new(uint64), new(int64)
	}
	return func(ctx context.Context, tag string, n int64) (seg store.Segment, err error) {
		revision, end := revisions[tag], ends[tag]
		seg = store.Segment{First: *end + 1, End: *end + 1 + n}
		*revision, err = kv.Update(ctx, "bare-"+tag, fmt.Appendf(nil, `{"next":%d,"step":1000}`, seg.End), *revision)
		*end += n
		return seg, err
	}
}
