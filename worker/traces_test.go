package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestTraceOfARefusedRequest: the log of the process has a refused request, with
// the trace of its caller, by NATS and directly. A request that waited for its
// segment, as each first one of a tag, is slow after a quarter of Config.Wait.
func TestTraceOfARefusedRequest(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	createTags(t, s, 100, "order")
	core, logged := observer.New(zap.InfoLevel)
	w := startWorker(t, net, worker.Config{Store: s, Wait: time.Minute, Log: zap.New(core)})
	caller := messages.NewClient(net.Connect(t), messages.DefaultPrefix)
	caller.Traceparent = func(context.Context) string { return "by-nats" }
	direct, err := w.Direct()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Next(t.Context(), "order"); err != nil {
		t.Error(err)
	}
	if _, err := caller.Next(t.Context(), "nosuch"); !errors.Is(err, messages.ErrNoTag) {
		t.Error(err)
	}
	if _, err := direct.Segment(t.Context(), "nosuch", nil, false, "directly"); !errors.Is(err, messages.ErrNoTag) {
		t.Error(err)
	}
	// A line is written after the reply. On a slow machine the client asks again.
	refused := func() []observer.LoggedEntry { return logged.FilterMessage("request refused").All() }
	natstest.Eventually(t, "both are logged", func() bool {
		traces := make(map[any]bool)
		for _, line := range refused() {
			traces[line.ContextMap()["traceparent"]] = true
		}
		return traces["by-nats"] && traces["directly"]
	})
	for _, line := range refused() {
		line := line.ContextMap()
		if trace := line["traceparent"]; trace != "by-nats" && trace != "directly" || line["tag"] != "nosuch" || line["code"] != int64(404) || line["instance"] != w.Instance() {
			t.Errorf("%v", line)
		}
	}
	for _, slow := range logged.FilterMessage("request waited for a segment").All() {
		if waited := slow.ContextMap()["waited"].(time.Duration); waited <= time.Minute/4 {
			t.Errorf("%v is slow", waited)
		}
	}
}
