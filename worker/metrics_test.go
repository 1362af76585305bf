package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// scrape returns all metrics of a worker, by name and label values in order:
// "requests_total/ok/segment". A histogram is its count.
func scrape(t testing.TB, w *worker.Process) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.Metrics(worker.DefaultMetricsTags))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := []string{strings.TrimPrefix(f.GetName(), "idworker_")}
			for _, l := range m.GetLabel() {
				key = append(key, l.GetValue())
			}
			values[strings.Join(key, "/")] = value(m)
		}
	}
	return values
}

func value(m *dto.Metric) float64 {
	if h := m.GetHistogram(); h != nil {
		return float64(h.GetSampleCount())
	}
	// Only one of them is set.
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// expect compares some of the metrics.
func expect(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for key, v := range want {
		if g, ok := got[key]; !ok || g != v {
			t.Errorf("%s is %v (there: %v), want %v", key, g, ok, v)
		}
	}
}

// TestMetrics: each part of a process has its metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	createTags(t, s, 100, "order")
	c := newClient(t, net)
	c.must("order")
	natstest.Eventually(t, "a snowflake ID", func() bool {
		// It waits for the answer: another request would count, too.
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		_, err := c.SnowflakeN(ctx, 1)
		return err == nil
	})
	var got map[string]float64
	natstest.Eventually(t, "all granted segments are there", func() bool {
		got = scrape(t, w)
		n := got["grants_total/installed"] // the first load may be sent twice
		return n >= 1 && got["loads_total/ok"] >= n && got["tag_buffered_ids/order"] == 100*n-1
	})
	expect(t, got, map[string]float64{
		"requests_total/ok/segment": 1, "requests_total/ok/snowflake": 1, "requests_total/429/segment": 0, "overloads_total": 0,
		"tag_ids_total/order": 1, "tags": 1, "parked_requests": 0,
		"store_outage": 0, "lease_held": 1, "lease_unconfirmed_seconds": 0, "installation_conflict": 0,
		"nats_connected/control": 1, "nats_connected/requests": 1,
	})
	for _, name := range []string{"clock_difference_seconds", "lease_reserved_seconds", "tag_runway_seconds/order", "foreign_messages_total/grant"} {
		if _, ok := got[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}

// TestReady follows a worker from the loss of its server to its end. Buffers
// answer direct requests while the server is unreachable.
func TestReady(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	createTags(t, s, 1000, "order")
	newClient(t, net).must("order")
	d, err := w.Direct()
	if err != nil {
		t.Fatal(err)
	}
	ready := func(why string) func() bool {
		return func() bool {
			err := w.Ready()
			return why == "" && err == nil || why != "" && err != nil && strings.Contains(err.Error(), why)
		}
	}
	natstest.Eventually(t, "ready", ready(""))
	net.Stop()
	natstest.Eventually(t, "not ready without NATS", ready("not connected to NATS"))
	for range 100 {
		if _, err := d.Segment(t.Context(), "order", nil, false, ""); err != nil {
			t.Error(err)
		}
	}
	net.Restart()
	natstest.Eventually(t, "ready again", ready(""))
	stop(t, w)
	if !ready("stopping")() {
		t.Errorf("a worker that has stopped is %v", w.Ready())
	}
}
