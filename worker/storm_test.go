package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// The bounds of what an outage of the store costs.
const (
	stormCallsPerLoader = 2  // of the store, a second
	stormMessagesSent   = 10 // by a worker, a second; each gets one answer of the stream

	stormStep  = 1000
	stormBatch = stormStep/10 + 1 // crosses the mark at once
	stormAsks  = 8                // of such batches, for each tag: one worker alone could answer them all
)

// storm is an installation with two loaders and four workers, all of whose tags want a segment.
type storm struct {
	t       *testing.T
	net     *natstest.Server
	caller  client
	tags    []string // loaded before the outage
	empty   []string // never loaded before the outage
	loaders []*unplugged
	workers []*nats.Conn // the control connections
}

// unplugged is a loader's store that can be taken away.
type unplugged struct {
	store.Store
	down  *atomic.Bool
	calls atomic.Int64
}

var errUnplugged = errors.New("unplugged")

func (u *unplugged) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	u.calls.Add(1)
	if u.down.Load() {
		return store.Segment{}, errUnplugged
	}
	return u.Store.Reserve(ctx, tag, step)
}

func (u *unplugged) Tags(ctx context.Context) ([]store.Tag, error) {
	u.calls.Add(1)
	if u.down.Load() {
		return nil, errUnplugged
	}
	return u.Store.Tags(ctx)
}

func startStorm(t *testing.T, down *atomic.Bool) *storm {
	net := natstest.Start(t)
	s := &storm{t: t, net: net, caller: newClient(t, net)}
	inner := newStore(t, net, 1)
	for n := range tier.Pick(400, 10_000) {
		s.tags = append(s.tags, fmt.Sprint("tag", n))
		s.empty = append(s.empty, fmt.Sprint("empty", n))
	}
	if err := worker.Provision(t.Context(), newJetStream(t, net), messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	directory, err := worker.OpenDirectory(t.Context(), newJetStream(t, net), messages.DefaultPrefix, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	each(slices.Concat(s.tags, s.empty), func(tag string) {
		if err := errors.Join(inner.CreateTag(t.Context(), store.Tag{Name: tag, Step: stormStep, Next: 1}), directory.Put(t.Context(), tag, stormStep)); err != nil {
			t.Error(err)
		}
	})
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	for range 2 {
		u := &unplugged{Store: inner, down: down}
		s.loaders = append(s.loaders, u)
		startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: u, Log: log})
	}
	for range 4 {
		cfg := worker.Config{Role: worker.RoleWorker, Log: log, Requests: net.Connect(t), Control: net.Connect(t), Version: "0.0.1"}
		w, err := worker.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Stop() })
		s.workers = append(s.workers, cfg.Control)
	}
	return s
}

// each calls f for all tags, many at a time.
func each(tags []string, f func(tag string)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range 200 {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(tags); n = int(next.Add(1)) - 1 {
				f(tags[n])
			}
		})
	}
	group.Wait()
}

// fill loads each tag on each worker, whose segments tell them apart.
func (s *storm) fill() {
	each(s.tags, func(tag string) {
		for seen := make(map[int64]bool); len(seen) < len(s.workers); {
			ranges, err := s.caller.ask(tag, 1, 30*time.Second)
			if err != nil {
				s.t.Error(err)
				return
			}
			seen[ranges[0].First/stormStep] = true
		}
	})
}

// ask asks for n IDs of each of the tags some times, and returns how many requests got 503, and
// how many any other error.
func (s *storm) ask(tags []string, times int, n int64) (unavailable, failed int64) {
	var away, other atomic.Int64
	each(tags, func(tag string) {
		for range times {
			switch _, err := s.caller.ask(tag, n, 30*time.Second); {
			case errors.Is(err, messages.ErrUnavailable):
				away.Add(1)
			case err != nil:
				other.Add(1)
			}
		}
	})
	return away.Load(), other.Load()
}

// wantAll fails the test unless all requests for the tags are answered.
func (s *storm) wantAll(when string, tags []string, times int, n int64) {
	s.t.Helper()
	if unavailable, failed := s.ask(tags, times, n); unavailable+failed > 0 {
		s.t.Errorf("%s: %d requests got 503, and %d another error", when, unavailable, failed)
	}
}

// cost is what a period costs.
type cost struct {
	calls    []int64  // of each loader
	messages []uint64 // that each worker sent on its control connection
	cpu      time.Duration
}

func (s *storm) count() (c cost) {
	for _, u := range s.loaders {
		c.calls = append(c.calls, u.calls.Load())
	}
	for _, conn := range s.workers {
		c.messages = append(c.messages, conn.Stats().OutMsgs)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		s.t.Fatal(err)
	}
	c.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return c
}

// wantCalm counts for that long, and fails the test if the outage costs more than it may.
func (s *storm) wantCalm(what string, d time.Duration) {
	s.t.Helper()
	before := s.count()
	time.Sleep(d)
	after := s.count()
	for i := range after.calls {
		calls := float64(after.calls[i]-before.calls[i]) / d.Seconds()
		if s.t.Logf("%s: loader %d: %.1f calls/s", what, i, calls); calls > stormCallsPerLoader {
			s.t.Errorf("%s: loader %d calls the store %.1f times a second, want at most %d", what, i, calls, stormCallsPerLoader)
		}
	}
	for i := range after.messages {
		rate := float64(after.messages[i]-before.messages[i]) / d.Seconds()
		if s.t.Logf("%s: worker %d: %.1f messages/s", what, i, rate); rate > stormMessagesSent {
			s.t.Errorf("%s: worker %d sends %.1f messages a second, want at most %d", what, i, rate, stormMessagesSent)
		}
	}
	s.t.Logf("%s: CPU %.1f %%", what, 100*float64(after.cpu-before.cpu)/float64(d))
}

// callsUntilCalm returns how many calls of the store it takes after an outage until none are made
// any more.
func (s *storm) callsUntilCalm() (calls int64, took time.Duration) {
	total := func() (n int64) {
		for _, u := range s.loaders {
			n += u.calls.Load()
		}
		return n
	}
	began, first, last := time.Now(), total(), total()
	for since := began; time.Since(since) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		if now := total(); now != last {
			last, since, took = now, time.Now(), time.Since(began)
		}
	}
	return last - first, took
}

// TestOutageIsCalm: while the store is down, all tags are below their mark on all workers. With
// memory in hand no request fails; without it, requests get 503. Neither costs the store or the
// stream more than a few calls and messages a second. When the store is back all is loaded.
func TestOutageIsCalm(t *testing.T) {
	var down atomic.Bool
	s := startStorm(t, &down)
	s.fill()
	down.Store(true)
	s.wantAll("with memory in hand", s.tags, stormAsks, stormBatch)
	time.Sleep(3 * time.Second)
	s.wantCalm("with memory", tier.Pick(5*time.Second, time.Minute))

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	callers.Go(func() {
		for ctx.Err() == nil {
			if _, failed := s.ask(s.empty[:tier.Pick(200, len(s.empty))], 1, 1); failed > 0 {
				t.Error("a request failed, and not with 503")
			}
		}
	})
	time.Sleep(tier.Pick(3*time.Second, 30*time.Second))
	s.wantCalm("with parked requests", tier.Pick(5*time.Second, time.Minute))
	stop()
	callers.Wait()

	down.Store(false)
	calls, took := s.callsUntilCalm()
	t.Logf("%d calls in %v after the outage", calls, took)
	if most := int64(len(s.workers)*(len(s.tags)+len(s.empty))) * 11 / 10; calls > most || calls < int64(len(s.tags)) {
		t.Errorf("%d calls after the outage, want at most %d", calls, most)
	}
	s.wantAll("after the outage, with what was loaded", s.tags, stormAsks, stormBatch)
	s.wantAll("after the outage, empty before", s.empty, 1, 1)
}
