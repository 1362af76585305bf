package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/internal/durability"
)

// saying is a check with this result.
func saying(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// A server that does not sync every write, or does not report it, causes a
// warning and a metric, unless --allow-unsynced is set.
func TestSyncWatch(t *testing.T) {
	for name, test := range map[string]struct {
		says    error
		allowed bool
		warns   bool
	}{
		"syncs":             {nil, false, false},
		"does not":          {durability.ErrNoSync, false, true},
		"says nothing":      {durability.ErrSyncUnknown, false, true},
		"does not, allowed": {durability.ErrNoSync, true, false},
		"silent, allowed":   {durability.ErrSyncUnknown, true, false},
	} {
		core, logged := observer.New(zapcore.InfoLevel)
		w := newSyncWatch(saying(test.says), saying(nil), test.allowed, zap.New(core))
		if value(t, w.metric) != 0 || w.looked {
			t.Errorf("%s: something is known before anybody looked", name)
		}
		w.look(t.Context())
		w.look(t.Context())
		want, lines := 0, logged.All()
		if test.warns {
			want = 1
		}
		if len(lines) != want || test.warns && (lines[0].Level != zapcore.WarnLevel || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), test.says.Error())) {
			t.Errorf("%s: logged %v, want %d warnings of %v", name, lines, want, test.says)
		}
		if got := value(t, w.metric); got != float64(want) || w.answered == errors.Is(test.says, durability.ErrSyncUnknown) || w.synced != (test.says == nil) {
			t.Errorf("%s: the metric is %v, want %v; %+v", name, got, want, w)
		}
	}
}

// value returns the value of a collector's only metric.
func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	found, err := registry.Gather()
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v; want one metric", found, err)
	}
	return found[0].Metric[0].GetGauge().GetValue()
}

// An unreachable server does not change the result; a change is logged.
func TestSyncWatchFollows(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	w := newSyncWatch(saying(durability.ErrNoSync), saying(nil), false, zap.New(core))
	w.look(t.Context())
	w.check = saying(durability.ErrSyncUnknown)
	w.look(t.Context())
	if !w.answered || w.synced || value(t, w.metric) != 1 || logged.Len() != 1 {
		t.Errorf("after servers that say nothing: %+v, logged %v", w, logged.All())
	}
	w.check = saying(nil)
	w.look(t.Context())
	if lines := logged.All(); value(t, w.metric) != 0 || len(lines) != 2 || lines[1].Level != zapcore.InfoLevel {
		t.Errorf("%+v, logged %v, want that it is well now", w, lines)
	}
}

// Replicas that differ are logged once, and are a metric until they agree. A
// comparison that fails changes nothing.
func TestReplicasWatch(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	w := newSyncWatch(saying(nil), nil, true, zap.New(core))
	for n, step := range []struct {
		says   error
		metric float64
		lines  int
	}{
		{nil, 0, 0}, {durability.ErrManyStreams, 0, 0}, {health.ErrReplicasDiffer, 1, 1}, {health.ErrReplicasDiffer, 1, 1},
		{context.DeadlineExceeded, 1, 1}, {nil, 0, 2}, {nil, 0, 2},
	} {
		w.compare = saying(step.says)
		w.lookAtReplicas(t.Context())
		if value(t, w.differ) != step.metric || logged.Len() != step.lines {
			t.Errorf("after look %d: the metric is %v, logged %v", n, value(t, w.differ), logged.All())
		}
	}
	if all := logged.All(); all[0].Level != zapcore.ErrorLevel || all[1].Level != zapcore.InfoLevel {
		t.Errorf("logged %v", all)
	}
}
