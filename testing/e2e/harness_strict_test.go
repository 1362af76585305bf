package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/order"
)

// observers are callers of strict tags whose requests and answers make a history. An answer
// counts whenever it comes, long after its caller asked somebody else too: the worst that an owner
// of the past can do is to answer late.
type observers struct {
	t    testing.TB
	stop atomic.Bool
	wg   sync.WaitGroup

	ids     atomic.Int64
	given   atomic.Int64 // requests that were not answered in time, or with an error that passes
	mu      sync.Mutex
	history []order.Call
	late    int // of these, answers that nobody waited for any more
}

// observer is one of them.
type observer struct {
	*observers
	conn   *nats.Conn
	random *rand.Rand
	inbox  string

	waiting sync.Mutex
	pending map[string]*pending // by reply subject
}

// pending is a request that has had no answer.
type pending struct {
	call   order.Call
	done   chan error // has room for one
	waited atomic.Bool
}

// startObservers starts callers, each with a connection of its own.
func startObservers(t testing.TB, urls []string, l load) *observers {
	t.Helper()
	all := &observers{t: t}
	for i := range l.callers {
		conn := connect(t, urls[i%len(urls)], nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.NoEcho())
		o := &observer{observers: all, conn: conn, random: rand.New(rand.NewPCG(uint64(i), 13)), inbox: conn.NewRespInbox(), pending: make(map[string]*pending)}
		sub, err := conn.Subscribe(o.inbox+".*", o.receive)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		all.wg.Go(func() { o.call(l) })
	}
	t.Cleanup(all.finish)
	return all
}

// finish stops the callers, and waits for the last one.
func (all *observers) finish() {
	all.stop.Store(true)
	all.wg.Wait()
}

// call asks for IDs, one request after the other, until stopped.
func (o *observer) call(l load) {
	for n := 0; !o.stop.Load(); n++ {
		tag := l.tags[o.random.IntN(len(l.tags))]
		switch err := o.ask(fmt.Sprintf("%s.%d", o.inbox, n), tag, count(o.random, l.maxBatch), l.timeout); {
		case err == nil:
		case l.retry(err):
			o.given.Add(1)
			time.Sleep(5 * time.Millisecond) // lest it ask for nothing but errors
		default:
			o.t.Errorf("request for IDs of %s: %v", tag, err)
			return
		}
	}
}

// ask sends a request, and waits for its answer.
func (o *observer) ask(inbox, tag string, n int64, patience time.Duration) error {
	p := &pending{call: order.Call{Tag: tag, Count: n}, done: make(chan error, 1)}
	p.waited.Store(true)
	o.waiting.Lock()
	o.pending[inbox] = p
	p.call.Sent = time.Now()
	o.waiting.Unlock()
	if err := o.conn.PublishRequest(messages.DefaultPrefix.Segment(tag), inbox, messages.EncodeCount(n)); err != nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-p.done:
		return err
	case <-timer.C:
		p.waited.Store(false)
		return context.DeadlineExceeded
	}
}

// receive records an answer. Only the first answer to a request would be looked at by a caller, but
// there is only one.
func (o *observer) receive(msg *nats.Msg) {
	received := time.Now()
	o.waiting.Lock()
	p := o.pending[msg.Subject]
	delete(o.pending, msg.Subject)
	o.waiting.Unlock()
	if p == nil {
		o.t.Errorf("a second answer to one request: %q", msg.Data)
		return
	}
	p.call.Received = received
	ranges, err := messages.DecodeReply(msg, p.call.Count)
	if err == nil {
		p.call.Ranges = ranges
		o.record(p)
	}
	p.done <- err
}

func (o *observer) record(p *pending) {
	all := o.observers
	all.mu.Lock()
	defer all.mu.Unlock()
	all.history = append(all.history, p.call)
	if !p.waited.Load() {
		all.late++
	}
	all.ids.Add(p.call.Count)
}

// check fails the test unless every two answers are in order, and every ID is new. porcupine looks
// at some parts.
func (all *observers) check() {
	all.t.Helper()
	all.mu.Lock()
	defer all.mu.Unlock()
	if err := order.Check(all.history); err != nil {
		all.t.Error(err)
	}
	all.sample()
	all.t.Logf("%d IDs in %d answers, %d of them late; %d requests that were not answered in time",
		all.ids.Load(), len(all.history), all.late, all.given.Load())
}

// sample has porcupine look at parts of the history: those in which little was late are decided soon.
func (all *observers) sample() {
	all.t.Helper()
	const part, parts = 400, 10
	random := rand.New(rand.NewPCG(uint64(len(all.history)), 17))
	undecided := 0
	for range parts {
		at := random.IntN(max(1, len(all.history)-part))
		err := order.Linearizable(all.history[at:min(len(all.history), at+part)], 2*time.Second)
		switch {
		case errors.Is(err, order.ErrUndecided):
			undecided++
		case err != nil:
			all.t.Error(err)
		}
	}
	if undecided > parts/2 {
		all.t.Errorf("porcupine has decided %d of %d parts", parts-undecided, parts)
	}
}

// transient reports whether a request may end so while owners come and go.
func transient(err error) bool {
	return lost(err) || errors.Is(err, messages.ErrUnavailable) || errors.Is(err, messages.ErrBusy) ||
		strings.Contains(err.Error(), "reconnect")
}
