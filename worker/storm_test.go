package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// What an outage of the store may cost.
const (
	stormCallsPerLoader = 2  // of the store, a second
	stormMessagesSent   = 10 // by a worker, a second; each gets one answer of the stream

	stormStep  = 1000
	stormBatch = stormStep/10 + 1 // crosses the mark at once
	stormAsks  = 8                // of such batches, for each tag: one worker alone could answer them all
)

// storm is two loaders and four workers in virtual time, all of whose tags want a
// segment. Store, stream and network are the test's.
type storm struct {
	t       *testing.T
	tags    []string // loaded before the outage
	empty   []string // never loaded before the outage
	loaders []*loader
	stores  []*stormStore // of each loader
	workers []*stormWorker
	stream  *stormStream
	lines   *observer.ObservedLogs // of the workers
	ctx     context.Context        //nolint:containedctx // ends the loaders' pulling
	pulling sync.WaitGroup
}

// stormWorker is what asks for segments in a worker, and what hands them out.
type stormWorker struct {
	*supply
	sent atomic.Int64 // messages
}

// stormStore is one loader's way to the counters that all have in common.
type stormStore struct {
	lookupStore // there are no templates
	counters    *stormCounters
	calls       atomic.Int64
}

type stormCounters struct {
	mu   sync.Mutex
	down bool
	next map[string]int64
}

func (c *stormCounters) set(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (s *stormStore) Known(string) bool { return true }

func (s *stormStore) Lookup(_ context.Context, tag string) (store.Tag, error) {
	return store.Tag{Name: tag, Step: stormStep, Next: 1, Order: store.Trend}, nil
}

func (s *stormStore) Reserve(_ context.Context, tag string, n int64) (store.Grant, error) {
	s.calls.Add(1)
	time.Sleep(10 * time.Millisecond)
	s.counters.mu.Lock()
	defer s.counters.mu.Unlock()
	if s.counters.down {
		return store.Grant{}, errAway
	}
	first := max(1, s.counters.next[tag])
	s.counters.next[tag] = first + n
	return store.Grant{Segment: store.Segment{First: first, End: first + n}, Order: store.Trend}, nil
}

// stormStream is the load stream: one event for each worker and tag, and a second
// is refused.
type stormStream struct {
	mu      sync.Mutex
	full    bool
	held    map[string]bool // by subject
	waiting []*stormEvent
	came    chan struct{} // holds one if something may wait
}

// stormEvent is an event in the stream.
type stormEvent struct {
	stream  *stormStream
	subject string
	event   loads.Event
	at      time.Time // when it came
	taken   bool      // acked
}

func (s *stormStream) add(subject string, event loads.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.held[subject]:
		return notStored(server.ErrMaxMsgsPerSubject)
	case s.full:
		return notStored(server.ErrMaxBytes)
	}
	s.held[subject] = true
	s.push(&stormEvent{stream: s, subject: subject, event: event, at: time.Now()})
	return nil
}

// notStored is the answer of a server that could not store an event.
func notStored(err error) error {
	e := server.NewJSStreamStoreFailedError(err)
	return &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description}
}

func (s *stormStream) setFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// push has an event wait. s.mu is held.
func (s *stormStream) push(e *stormEvent) {
	s.waiting = append(s.waiting, e)
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// pull returns up to n events, when there are any, or when some time has passed.
func (s *stormStream) pull(ctx context.Context, n int) (pulled []*stormEvent) {
	select {
	case <-s.came:
	case <-time.After(pullExpiry):
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(e *stormEvent) bool {
		old := time.Since(e.at) > loadEventAge
		if old {
			delete(s.held, e.subject)
		}
		return old
	})
	pulled = slices.Clone(s.waiting[:min(n, len(s.waiting))])
	if s.waiting = s.waiting[len(pulled):]; len(s.waiting) > 0 {
		select {
		case s.came <- struct{}{}:
		default:
		}
	}
	for _, e := range pulled {
		time.AfterFunc(storeTimeout+2*time.Second, func() { _ = e.Nak() }) // not acked in time
	}
	return pulled
}

// Ack is part of acker.
func (e *stormEvent) Ack() error {
	e.stream.mu.Lock()
	defer e.stream.mu.Unlock()
	e.taken = true
	delete(e.stream.held, e.subject)
	return nil
}

// Nak is part of acker.
func (e *stormEvent) Nak() error {
	e.stream.mu.Lock()
	defer e.stream.mu.Unlock()
	if !e.taken && time.Since(e.at) <= loadEventAge && !slices.Contains(e.stream.waiting, e) {
		e.stream.push(e)
	}
	return nil
}

// stormPublisher is the stream as a worker sees it.
type stormPublisher struct {
	jetstream.JetStream // nothing else is used of it
	stream              *stormStream
	sent                *atomic.Int64
}

func (p stormPublisher) Publish(_ context.Context, subject string, data []byte, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	p.sent.Add(1)
	time.Sleep(time.Millisecond)
	event, err := loads.DecodeEvent(data, maxStepLimit)
	if err != nil {
		return nil, err
	}
	return new(jetstream.PubAck), p.stream.add(subject, event)
}

// testStorm runs f with an installation in virtual time.
func testStorm(t *testing.T, f func(s *storm, down func(bool))) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		counters := &stormCounters{next: make(map[string]int64)}
		core, lines := observer.New(zap.InfoLevel)
		s := &storm{t: t, ctx: ctx, lines: lines, stream: &stormStream{held: make(map[string]bool), came: make(chan struct{}, 1)}}
		for n := range tier.Pick(200, 10_000) {
			s.tags, s.empty = append(s.tags, fmt.Sprint("tag", n)), append(s.empty, fmt.Sprint("empty", n))
		}
		for range 2 {
			s.startLoader(&stormStore{counters: counters})
		}
		for range 4 {
			s.startWorker(zap.New(core))
		}
		f(s, counters.set)
		for _, w := range s.workers {
			w.background.stop()
		}
		end()
		s.pulling.Wait()
		for _, l := range s.loaders {
			l.stop()
		}
	})
}

func (s *storm) startLoader(from *stormStore) {
	l := newLoader(Config{Log: zap.NewNop()}.WithDefaults(), newLookups(from, noTemplates))
	l.publish = func(_ string, data []byte) error {
		grant, err := loads.DecodeGrant(data)
		if err != nil {
			return err
		}
		for _, w := range s.workers {
			if w.instance == grant.Instance {
				w.grants.receive(&nats.Msg{Data: data})
			}
		}
		return nil
	}
	s.loaders, s.stores = append(s.loaders, l), append(s.stores, from)
	s.pulling.Go(func() {
		for s.ctx.Err() == nil {
			for _, e := range s.stream.pull(s.ctx, l.turns.awaitRoom(s.ctx)) {
				l.submit(job{e.event, e, time.Now().Add(storeTimeout + 2*time.Second - ackMargin)})
			}
		}
	})
}

func (s *storm) startWorker(log *zap.Logger) {
	w := new(stormWorker)
	p := processInfo{
		cfg: Config{Log: log}.WithDefaults(), instance: fmt.Sprint("w", len(s.workers)),
		js:      stormPublisher{stream: s.stream, sent: &w.sent},
		foreign: newForeignMessages("", zap.NewNop()),
	}
	w.supply = newSupply(p, func(loads.Event) bool { return false })
	w.asker.plain = func(_ string, data []byte) error {
		w.sent.Add(1)
		event, err := loads.DecodeEvent(data, maxStepLimit)
		if err == nil {
			s.loaders[len(event.Tag)%len(s.loaders)].loadDirectly(event)
		}
		return err
	}
	w.background.start(w.tick)
	s.workers = append(s.workers, w)
}

// ask asks a worker for n IDs.
func (w *stormWorker) ask(tag string, n int64) error {
	answered := make(chan error, 1)
	ids, err := w.alloc.TakeOrPark(tag, allocator.Request{N: n, Answer: func(_ []store.Segment, err error) { answered <- err }})
	if ids != nil || err != nil {
		return err
	}
	return <-answered
}

// askAll asks for n IDs of each of the tags some times, of each worker in turn, and
// counts the answers by code; 0 is IDs.
func (s *storm) askAll(tags []string, times int, n int64) map[messages.Code]int {
	var mu sync.Mutex
	codes := make(map[messages.Code]int)
	var all sync.WaitGroup
	for i, tag := range tags {
		all.Go(func() {
			for k := range times {
				code := messages.Code(0)
				if err := s.workers[(i+k)%len(s.workers)].ask(tag, n); err != nil {
					code, _ = wireError(err)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return codes
}

// wantAll fails the test unless all requests for the tags are answered with IDs.
func (s *storm) wantAll(when string, tags []string, times int, n int64) {
	s.t.Helper()
	if codes := s.askAll(tags, times, n); codes[0] != len(tags)*times {
		s.t.Errorf("%s: answers by code %v, want IDs for all", when, codes)
	}
}

// count returns the calls of each loader, and the messages that each worker sent.
func (s *storm) count() (calls, sent []int64) {
	for _, c := range s.stores {
		calls = append(calls, c.calls.Load())
	}
	for _, w := range s.workers {
		sent = append(sent, w.sent.Load())
	}
	return calls, sent
}

// wantCalm counts for that long, and fails the test if the outage costs more than it may.
func (s *storm) wantCalm(what string, d time.Duration) {
	s.t.Helper()
	calls, sent := s.count()
	time.Sleep(d)
	callsThen, sentThen := s.count()
	check := func(who string, before, after []int64, most float64) {
		s.t.Helper()
		for i := range after {
			rate := float64(after[i]-before[i]) / d.Seconds()
			if s.t.Logf("%s: %s %d: %.1f/s", what, who, i, rate); rate > most {
				s.t.Errorf("%s: %s %d: %.1f a second, want at most %v", what, who, i, rate, most)
			}
		}
	}
	check("calls of loader", calls, callsThen, stormCallsPerLoader)
	check("messages of worker", sent, sentThen, stormMessagesSent)
}

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

// TestOutageIsCalm: while the store is down, all tags are below their mark on all workers. With
// memory in hand no request fails; without it, requests get 503. Neither costs the store or the
// stream more than a few calls and messages a second. When the store is back all is loaded.
func TestOutageIsCalm(t *testing.T) {
	t.Parallel()
	testStorm(t, func(s *storm, down func(bool)) {
		s.wantAll("before the outage", s.tags, len(s.workers), 1) // loads each tag on each worker
		time.Sleep(time.Minute)
		down(true)
		s.wantAll("with memory in hand", s.tags, stormAsks, stormBatch)
		time.Sleep(3 * time.Second)
		s.wantCalm("with memory", time.Minute)

		ctx, stop := context.WithCancel(s.ctx)
		var callers sync.WaitGroup
		callers.Go(func() {
			for ctx.Err() == nil {
				codes := s.askAll(s.empty, 1, 1)
				if codes[messages.CodeUnavailable] != len(s.empty) {
					s.t.Errorf("without memory: answers by code %v, want 503 for all", codes)
				}
			}
		})
		time.Sleep(3 * time.Second)
		s.wantCalm("with parked requests", time.Minute)
		stop()
		callers.Wait()

		before, _ := s.count()
		down(false)
		time.Sleep(time.Minute)
		after, _ := s.count()
		calls := sum(after) - sum(before)
		if most := int64(len(s.workers)*(len(s.tags)+len(s.empty))) * 11 / 10; calls > most || calls < int64(len(s.tags)) {
			s.t.Errorf("%d calls after the outage, want from %d to %d", calls, len(s.tags), most)
		}
		s.wantCalm("after the outage", time.Minute)
		s.wantAll("after the outage, with what was loaded", s.tags, stormAsks, stormBatch)
		s.wantAll("after the outage, empty before", s.empty, 1, 1)
	})
}

// TestFullStreamDelaysNoLoad: while the load stream has no room for an event, loads go straight to
// loaders, those of tags that have IDs left as well, and each worker logs that once.
func TestFullStreamDelaysNoLoad(t *testing.T) {
	t.Parallel()
	testStorm(t, func(s *storm, _ func(bool)) {
		s.wantAll("before the stream is full", s.tags[:1], len(s.workers), 1)
		time.Sleep(time.Minute)
		s.stream.setFull(true)
		began := time.Now()
		for _, tag := range s.tags[1:11] {
			s.wantAll("full", []string{tag}, len(s.workers), 1)
		}
		if took := time.Since(began); took >= openTime {
			s.t.Errorf("10 tags took %v one after the other, want no pause", took)
		}
		for _, w := range s.workers {
			before := w.grants.installed.Load()
			if err := w.ask(s.tags[0], stormBatch); err != nil {
				s.t.Error(err)
			}
			time.Sleep(openTime)
			if n := w.grants.installed.Load() - before; n != 1 {
				s.t.Errorf("%s was granted %d segments for a tag that has IDs left, want 1", w.asker.instance, n)
			}
		}
		time.Sleep(time.Minute)
		s.wantAll("later", s.tags[11:12], len(s.workers), 1)

		s.stream.setFull(false)
		time.Sleep(time.Minute)
		s.wantAll("not full any more", s.tags[1:2], len(s.workers), stormBatch)
		time.Sleep(time.Minute)
		for _, line := range []string{"load stream is away, loading directly", "load stream is back"} {
			if n := s.lines.FilterMessage(line).Len(); n != len(s.workers) {
				s.t.Errorf("%q was logged %d times by %d workers", line, n, len(s.workers))
			}
		}
		for _, line := range s.lines.FilterLevelExact(zap.WarnLevel).All() {
			if reason := fmt.Sprint(line.ContextMap()["error"]); !strings.Contains(reason, server.ErrMaxBytes.Error()) {
				s.t.Errorf("%q for the reason %q", line.Message, reason)
			}
		}
	})
}
