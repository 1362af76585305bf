package bench

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/guard"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/store/mysql"
	"github.com/idworker/idworker/store/postgres"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

const (
	ledgerRounds   = 5
	ledgerLoads    = 200 // one after the other, in each round
	ledgerTags     = 16  // at once, when loads per second are measured
	ledgerMayCost  = 2   // ms
	ledgerParallel = 50  // loads for each tag
)

// BenchmarkLedger is what the ledger costs a load: the time of one reservation, and
// reservations per second for 16 tags at once, from a database alone, and with the ledger on
// one NATS server that syncs every write.
func BenchmarkLedger(b *testing.B) {
	for _, c := range []struct {
		name     string
		database func(testing.TB) *dbtest.DB
		open     func(dsn string) (store.Store, error)
	}{
		{"mysql", dbtest.MySQL, func(dsn string) (store.Store, error) { return mysql.Open(dsn, "leaf_alloc") }},
		{"postgres", dbtest.Postgres, func(dsn string) (store.Store, error) { return postgres.Open(dsn, "leaf_alloc") }},
	} {
		b.Run(c.name, func(b *testing.B) {
			db := c.database(b)
			db.Exec(b, "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL, step int NOT NULL)")
			alone, err := c.open(db.DSN())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = alone.(io.Closer).Close() })
			for n := range ledgerTags {
				if err := alone.CreateTag(b.Context(), store.Tag{Name: ledgerTag(n), Step: 1000, Next: 1}); err != nil {
					b.Fatal(err)
				}
			}
			guarded := withLedger(b, alone)
			var without, with, rateWithout, rateWith []float64
			for range ledgerRounds {
				without, with = append(without, loadTime(b, alone)), append(with, loadTime(b, guarded))
				rateWithout, rateWith = append(rateWithout, loadRate(b, alone)), append(rateWith, loadRate(b, guarded))
			}
			extra := median(with) - median(without)
			b.ReportMetric(extra, "ms-ledger")
			b.ReportMetric(0, "ns/op")
			table.add(
				row{what: "ledger: what it adds to the median load, " + c.name, unit: "ms", subject: extra, bar: atMost(ledgerMayCost),
					note: fmt.Sprintf("%.2f ms, database alone %.2f ms", median(with), median(without))},
				row{what: "ledger: loads for 16 tags at once, " + c.name, unit: "/s", subject: median(rateWith), baseline: median(rateWithout),
					beside: "database alone", ratio: medianRatio(rateWith, rateWithout)},
			)
		})
	}
}

func ledgerTag(n int) string { return fmt.Sprintf("tag%d", n) }

// withLedger puts a ledger and a memory in front of a store, as a loader has them.
func withLedger(b *testing.B, inner store.Store) store.Store {
	b.Helper()
	srv := natstest.Start(b, func(o *server.Options) { o.SyncAlways = true })
	js := natstest.JetStream(b, srv.Connect(b))
	if err := agreement.Bucket(messages.DefaultPrefix, 1).Ensure(b.Context(), js); err != nil {
		b.Fatal(err)
	}
	if err := ledger.Create(b.Context(), js, messages.DefaultPrefix, 1); err != nil {
		b.Fatal(err)
	}
	s := ledger.New(inner, ledger.Config{JetStream: js, Prefix: messages.DefaultPrefix})
	if _, err := s.Fill(b.Context()); err != nil {
		b.Fatal(err)
	}
	g := guard.New(s, "", nil)
	var watching sync.WaitGroup
	watching.Go(func() { g.Run(b.Context()) })
	b.Cleanup(watching.Wait)
	return g
}

// loadTime is the median of some reservations, in milliseconds.
func loadTime(b *testing.B, s store.Store) float64 {
	var took []time.Duration
	for range ledgerLoads {
		began := time.Now()
		if _, err := s.Reserve(b.Context(), ledgerTag(0), 1000); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return micros(percentile(took, 0.5)) / 1000
}

// loadRate is how many reservations a second there are for several tags at once.
func loadRate(b *testing.B, s store.Store) float64 {
	began := time.Now()
	var group sync.WaitGroup
	for n := range ledgerTags {
		group.Go(func() {
			for range ledgerParallel {
				if _, err := s.Reserve(b.Context(), ledgerTag(n), 1000); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return ledgerTags * ledgerParallel / time.Since(began).Seconds()
}
