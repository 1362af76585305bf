package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const (
	newTags     = 6 // one after the other
	newInFlight = 16
	newFor      = time.Second
	newBar      = 150 // requests
)

// BenchmarkNewTag counts the requests that wait for a load in a tag's first
// second, beside those that do in its next. The first segment has 1,000 IDs,
// and the buffer grows as it is used, so a load has to come from a store that
// syncs in half of the time for which the tag was used.
func BenchmarkNewTag(b *testing.B) {
	srv := natstest.Start(b, syncAlways)
	s := newSite(b, srv, worker.Config{}, nil)
	for n := range newTags {
		s.create(store.Tag{Name: fmt.Sprint("new", n), Step: 1000, Next: firstID})
	}
	p, conn := s.mustStart(worker.RoleAll), srv.Connect(b)
	call := newCaller(b, conn, newInFlight)
	waits := func(of string) (waited, requests float64) {
		before, had := waitedRequests(b, p)
		call.round(b, messages.DefaultPrefix.Segment(of), newFor)
		waited, requests = waitedRequests(b, p)
		return waited - before, requests - had
	}
	var first, later, all float64
	for n := range newTags {
		name := fmt.Sprint("new", n)
		for !answeredOnce(conn, name) { // the first segment, which all have to wait for
		}
		waited, requests := waits(name)
		first, all = first+waited, all+requests
		waited, _ = waits(name)
		later += waited
	}
	b.ReportMetric(first, "waited")
	b.ReportMetric(later, "waited-later")
	b.ReportMetric(all, "requests")
	b.ReportMetric(0, "ns/op")
	table.add(row{
		what: "requests that waited for a load, in a new tag's first second", unit: "", subject: first, bar: atMost(newBar),
		note: fmt.Sprintf("of %.0f for %d tags; %.0f in the second after it", all, newTags, later),
	})
}

// waitedRequests is how many requests for tags were parked, and how many were
// answered.
func waitedRequests(b *testing.B, p *worker.Process) (waited, all float64) {
	b.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.Metrics(0))
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "idworker_request_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); m.GetLabel()[len(m.GetLabel())-1].GetValue() == "segment" {
				all = float64(h.GetSampleCount())
				return all - float64(h.GetBucket()[0].GetCumulativeCount()), all
			}
		}
	}
	b.Fatal("no metric of the time that requests were parked")
	return 0, 0
}
