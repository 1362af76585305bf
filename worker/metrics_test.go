package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// scrape returns all metrics of a worker, by name and the values of the labels in
// order: "requests_total/ok/segment". Of a histogram it is the count.
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
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() // only one is there
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

// TestMetrics asks for all that can happen to requests, and counts it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	g := &gate{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: g, StoreName: "jetstream", Wait: time.Second})
	createTags(t, g, 100, "order", "cold")
	c := newClient(t, net)
	natstest.Eventually(t, "a worker ID is held", func() bool { return scrape(t, w)["lease_held"] == 1 })
	natstest.Eventually(t, "the queue group of snowflake requests is entered", func() bool {
		_, err := c.conn.Request("$SRV.PING.idworker-snowflake", nil, natstest.Patience)
		return err == nil
	})
	unavailable := 1.0 // the cold tag below
	for _, n := range []int64{1, 14} {
		natstest.Eventually(t, "IDs", func() bool {
			_, err := c.ask("order", n)
			if errors.Is(err, messages.ErrUnavailable) { // the machine is slow
				unavailable++
			} else if err != nil {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	natstest.Eventually(t, "the second segment", func() bool { return scrape(t, w)["grants_total/installed"] == 2 })
	for tag, want := range map[string]*messages.Error{"grün": messages.ErrMalformed, "nope": messages.ErrNoTag} {
		expectCode(t, c, tag, want)
	}
	for range 3 {
		if _, err := c.SnowflakeN(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	defer g.close("cold")()
	expectCode(t, c, "cold", messages.ErrUnavailable)

	natstest.Eventually(t, "the reply is counted", func() bool {
		s := scrape(t, w)
		return s["requests_total/503/segment"] == unavailable && s["parked_requests"] == 0
	})
	got := scrape(t, w)
	expect(t, got, map[string]float64{
		"requests_total/ok/segment": 2, "requests_total/400/segment": 1, "requests_total/404/segment": 1,
		"requests_total/503/segment": unavailable, "requests_total/429/segment": 0, "requests_total/507/segment": 0,
		"requests_total/ok/snowflake": 3, "request_duration_seconds/segment": 4 + unavailable, "request_duration_seconds/snowflake": 3,
		"ids_total/segment": 15, "ids_total/snowflake": 3,
		"tag_ids_total/order": 15, "tag_step_ids/order": 200, "tag_buffered_ids/order": 285,
		"grants_total/installed": 2, "grants_total/below": 0, "grants_total/refused": 1,
		"parked_requests": 0, "store_outage": 0, "store_outages_total": 0, "tags": 1, "tags_unlisted": 0,
		"nats_connected/control": 1, "nats_connected/requests": 1,
	})
	natstest.Eventually(t, "two loads or more, each timed", func() bool { // the cold one ends late
		got := scrape(t, w)
		return got["loads_total/ok"] >= 2 && got["load_duration_seconds"] == got["loads_total/ok"]+got["loads_total/no_tag"]+got["loads_total/failed"]
	})
	if _, ok := got["clock_difference_seconds"]; !ok {
		t.Error("no difference of the clocks")
	}
	natstest.Eventually(t, "time that is reserved, up to the TTL", func() bool {
		r := scrape(t, w)["lease_reserved_seconds"]
		return r > 0 && r <= 30
	})
	if r, of := got["tag_runway_seconds/order"], got["runway_seconds"]; r <= 0 || of > r {
		t.Errorf("runway %v s, of all %v s", r, of)
	}
}

// expectCode asks the worker past the client's own checks.
func expectCode(t *testing.T, c client, tag string, want *messages.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	msg, err := c.conn.RequestWithContext(ctx, messages.DefaultPrefix.Segment(tag), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := messages.DecodeReply(msg, 1); !want.Is(err) {
		t.Errorf("%s: %v, want %v", tag, err, want)
	}
}

// TestOutageMetrics: an outage is there while it lasts, and counted once.
func TestOutageMetrics(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := &unplugged{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream", Wait: time.Second})
	createTags(t, s, 100, "order")
	c := newClient(t, net)
	s.down.Store(true)
	natstest.Eventually(t, "the store fails", func() bool {
		_, _ = c.ask("order", 1)
		return scrape(t, w)["store_outage"] == 1
	})
	if got := scrape(t, w); got["loads_total/failed"] < 1 || got["store_outages_total"] != 1 {
		t.Errorf("%v loads failed in %v outages", got["loads_total/failed"], got["store_outages_total"])
	}
	s.down.Store(false)
	natstest.Eventually(t, "the store works", func() bool {
		_, _ = c.ask("order", 1)
		return scrape(t, w)["store_outage"] == 0
	})
	expect(t, scrape(t, w), map[string]float64{"store_outages_total": 1})
}

// TestReady follows a worker through the loss of its server to its end.
func TestReady(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	w := startWorker(t, net, worker.Config{Store: newStore(t, net, 1), StoreName: "jetstream"})
	ready := func(why string) func() bool {
		return func() bool {
			err := w.Ready()
			return why == "" && err == nil || why != "" && err != nil && strings.Contains(err.Error(), why)
		}
	}
	natstest.Eventually(t, "ready", ready(""))
	net.Stop()
	natstest.Eventually(t, "not ready without NATS", ready("not connected to NATS"))
	net.Restart()
	natstest.Eventually(t, "ready again", ready(""))
	stop(t, w)
	if !ready("stopping")() {
		t.Errorf("a worker that has stopped is %v", w.Ready())
	}
}
