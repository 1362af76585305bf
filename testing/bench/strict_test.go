package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const (
	strictRounds  = 31
	ownerBar      = 0.95 // × the throughput of an ordinary tag
	forwardedBar  = 2    // × the p50 of an ordinary tag
	strictTagStep = 1 << 33
)

// BenchmarkStrict measures requests for a strict tag beside those for an ordinary one: at the process that
// owns it, and at another one, which passes them on.
func BenchmarkStrict(b *testing.B) {
	for _, c := range []struct {
		what     string
		inFlight int
	}{{"one at a time", 1}, {"256 in flight", 256}} {
		b.Run(fmt.Sprintf("inflight=%d", c.inFlight), func(b *testing.B) { benchmarkStrict(b, c.what, c.inFlight) })
	}
}

func benchmarkStrict(b *testing.B, what string, inFlight int) {
	srv := natstest.Start(b, func(o *server.Options) { o.SyncAlways = true })
	startWorker(b, srv, "trend", strictTagStep, 1)
	makeStrict(b, srv, "owner")
	startWorker(b, srv, "owner", strictTagStep, 1)
	makeStrict(b, srv, "two")
	startWorker(b, srv, "two", strictTagStep, 1)
	ask(b, srv, "two") // so that the first one owns the tag
	second := startSecondWorker(b, srv, "two")

	nc := srv.Connect(b)
	plain, forwarded := newCaller(b, nc, inFlight), newCaller(b, nc, inFlight)
	// Of two workers in a queue group the server would choose. So the request comes to the second
	// one as if it had been passed on already.
	forwarded.message = func(reply string) *nats.Msg {
		return &nats.Msg{Subject: "two.strict." + second + "." + busyTag, Data: []byte(" 1 2000 " + reply)}
	}
	at := func(c *caller, prefix messages.Prefix) func() measured {
		return func() measured { return c.round(b, prefix.Segment(busyTag), requestRound) }
	}
	figures := inTurns(strictRounds, at(plain, "trend"), at(plain, "owner"), at(forwarded, "two"))
	add := func(side string, m []measured, field func(measured) float64, metric, unit string, bar bar) {
		ratio := medianRatio(column(m, field), column(figures[0], field))
		b.ReportMetric(ratio, side+"-"+metric+"/ordinary")
		table.add(row{
			what: "strict tag, " + side + ", " + what + ": " + metric, unit: unit, beside: "ordinary tag", ratio: ratio, bar: bar,
			subject: median(column(m, field)), baseline: median(column(figures[0], field)),
		})
	}
	rate, p50 := func(m measured) float64 { return m.rate }, func(m measured) float64 { return m.p50 }
	add("owner", figures[1], rate, "throughput", "/s", atLeast(ownerBar))
	add("owner", figures[1], p50, "p50", "µs", bar{})
	add("forwarded", figures[2], rate, "throughput", "/s", bar{})
	add("forwarded", figures[2], p50, "p50", "µs", atMost(forwardedBar))
	b.ReportMetric(0, "ns/op")
}

// makeStrict writes the rule before there are workers.
func makeStrict(b *testing.B, srv *natstest.Server, prefix messages.Prefix) {
	b.Helper()
	js := natstest.JetStream(b, srv.Connect(b))
	if err := worker.Provision(b.Context(), js, prefix, 1); err != nil {
		b.Fatal(err)
	}
	editor, err := tagrules.OpenEditor(b.Context(), js, prefix)
	if err == nil {
		_, err = editor.SetOrder(b.Context(), busyTag, tagrules.Strict)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// ask gets an ID, as soon as there is one.
func ask(b *testing.B, srv *natstest.Server, prefix messages.Prefix) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := messages.NewClient(srv.Connect(b), prefix).Next(b.Context(), busyTag)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

// startSecondWorker starts a worker that has no loader, and returns its instance.
func startSecondWorker(b *testing.B, srv *natstest.Server, prefix messages.Prefix) string {
	b.Helper()
	var none store.Store
	w, err := worker.Start(b.Context(), worker.Config{
		Requests: srv.Connect(b), Control: srv.Connect(b), Prefix: prefix, Role: worker.RoleWorker, Store: none,
		MaxBatch: 1, MaxStep: strictTagStep, Version: "0.0.0",
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.Stop(); err != nil {
			b.Error(err)
		}
	})
	return w.Instance()
}
