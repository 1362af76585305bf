package decision

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// held is what a worker holds: it counts what it is to drop.
type held struct {
	floor, voided atomic.Int64
	learn         func() // called by Learn; or nil
}

func (h *held) Learn(floor int64) {
	if h.learn != nil {
		h.learn()
	}
	h.floor.Store(max(h.floor.Load(), floor))
}

func (h *held) Void(int64) { h.voided.Add(1) }

// site is a Watch of the installation "own".
type site struct {
	*Watch
	*held
	net    *natstest.Node
	agreed *agreement.Agreement
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{held: new(held), net: natstest.Start(t)}
	js := natstest.JetStream(t, s.net.Connect(t))
	err := agreement.Begin(t.Context(), js, messages.DefaultPrefix, 1, "own")
	if err == nil {
		s.agreed, err = agreement.Open(t.Context(), js, messages.DefaultPrefix)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Watch = New(Config{
		JS: natstest.JetStream(t, s.net.Connect(t, nats.ReconnectBufSize(-1))), Prefix: messages.DefaultPrefix, Installation: "own", Segments: s.held, Log: zap.NewNop(),
		Look: natstest.Patience, Pass: natstest.Patience,
	})
	return s
}

// run runs the Watch until the test ends.
func (s *site) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	go s.Run(ctx)
	t.Cleanup(func() { cancel(); <-s.stopped })
}

func (s *site) announce(t *testing.T, d agreement.Announcement) {
	t.Helper()
	if err := s.agreed.Announce(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// TestRequestWaitsForALook: the first request over a connection passes after the
// latest decision was learned.
func TestRequestWaitsForALook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	gate := s.NewGate()
	gate.Over(s.net.Connect(t))
	s.announce(t, agreement.Announcement{Floor: 1000, Installation: "own"})
	s.run(t)
	for floor := range int64(3) {
		gate.Pass()
		if got := s.floor.Load(); got < 1000+floor {
			t.Fatalf("passed with floor %d, want %d", got, 1000+floor)
		}
		s.announce(t, agreement.Announcement{Floor: 1000 + floor + 1, Installation: "own"})
		gate.Close() // a new connection
	}
}

// TestRequestWaitsForItsOwnLook: a look that is under way may have read the key
// before the decision, so a request waits for a look that begins after the request
// came.
func TestRequestWaitsForItsOwnLook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	reading, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	var once sync.Once
	s.learn = func() {
		once.Do(func() {
			close(reading)
			<-goOn
		})
	}
	s.run(t)
	t.Cleanup(release)
	<-reading // of the first look, which found no decision
	s.announce(t, agreement.Announcement{Floor: 1000, Installation: "own"})
	passed := make(chan int64)
	go func() {
		s.NewGate().Pass()
		passed <- s.floor.Load()
	}()
	natstest.Eventually(t, "the request waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pending != nil
	})
	release()
	if floor := <-passed; floor != 1000 {
		t.Errorf("passed with floor %d, want 1000", floor)
	}
}

// TestLateContact: the server's answer to what was sent over a connection before
// keeps no gate open.
func TestLateContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{})
		gate := w.NewGate()
		time.Sleep(time.Millisecond)
		gate.open(time.Now(), time.Now())
		sent := time.Now()
		time.Sleep(time.Millisecond)
		began := time.Now()
		gate.Close()
		time.Sleep(time.Millisecond)
		for what, contact := range map[string]func(){
			"an answer to what was sent before": func() { gate.Touch(sent) },
			"a look that began before":          func() { gate.open(began, time.Now()) },
		} {
			if contact(); gate.isOpen(w.now()) {
				t.Errorf("opened by %s", what)
			}
		}
		time.Sleep(time.Millisecond)
		if gate.open(time.Now(), time.Now()); !gate.isOpen(w.now()) {
			t.Error("closed after a look")
		}
	})
}

// TestRequestAfterTheEnd: a request that comes when the Watch has ended does not
// wait for it.
func TestRequestAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{Pass: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.Run(ctx)
		ended := time.Now()
		if w.NewGate().Pass(); time.Since(ended) > 0 {
			t.Errorf("waited for %v", time.Since(ended))
		}
	})
}

// TestContactOpensNoGate: pongs keep a gate open. Once contact was lost for the
// time of trust, they do not open it, even if no request came since.
func TestContactOpensNoGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{})
		gate := w.NewGate()
		touch := func() {
			time.Sleep(trust / 10)
			gate.Touch(time.Now())
		}
		if touch(); gate.isOpen(w.now()) {
			t.Error("opened by contact before any look")
		}
		gate.open(time.Now(), time.Now())
		for range 50 {
			if touch(); !gate.isOpen(w.now()) {
				t.Fatal("closed although contact lasts")
			}
		}
		time.Sleep(trust)
		for range 20 {
			if touch(); gate.isOpen(w.now()) {
				t.Fatal("opened by contact after contact was lost")
			}
		}
		// The network stalls, then brings the answers to all that was sent since.
		gate.open(time.Now(), time.Now())
		stalled := time.Now()
		time.Sleep(2 * trust)
		for sent := stalled; !sent.After(time.Now()); sent = sent.Add(trust / 10) {
			if gate.Touch(sent); gate.isOpen(w.now()) {
				t.Fatal("opened by answers that came late")
			}
		}
		gate.open(time.Now(), time.Now())
		gate.Close()
		for range 20 {
			if touch(); gate.isOpen(w.now()) {
				t.Fatal("opened by contact on a new connection")
			}
		}
	})
}

// TestSilenceOfJetStream: a look that fails does not hold a request for long. It
// opens the gate only if there was contact meanwhile: otherwise a decision may
// be made until the worker is back.
func TestSilenceOfJetStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	gate := s.NewGate()
	gate.Over(s.net.Connect(t))
	s.net.Stop()
	for _, contact := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		gate.heard.Store(0)
		if contact {
			gate.heard.Store(int64(time.Hour)) // as if a pong came at any time
		}
		s.round(ctx)
		if open := gate.touch.Load() > gate.closed.Load(); open != contact {
			t.Errorf("contact %v: open %v", contact, open)
		}
		cancel()
	}
	s.run(t)
	gate.Close()
	gate.Pass() // returns
}

// TestDecisionAboutAnother: what another installation decided in this place voids
// everything, once, and its floor counts for nothing else.
func TestDecisionAboutAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.announce(t, agreement.Announcement{Floor: 1000, Installation: "other"})
	for range 2 {
		if err := s.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.voided.Load() != 1 || s.floor.Load() != 0 {
		t.Errorf("voided %d times, floor %d", s.voided.Load(), s.floor.Load())
	}
	s.announce(t, agreement.Announcement{Floor: 2000, Installation: "own"})
	if err := s.Look(t.Context()); err != nil || s.floor.Load() != 2000 {
		t.Errorf("its own again: floor %d, %v", s.floor.Load(), err)
	}
}

// TestOwnLoader: what the process's own loader has adopted needs no look.
func TestOwnLoader(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.Own = func() int64 { return 3000 }
	s.net.Stop()
	s.run(t)
	natstest.Eventually(t, "the floor is learned", func() bool { return s.floor.Load() == 3000 })
}

// TestOpenGateAllocatesNothing: each request passes a gate.
func TestOpenGateAllocatesNothing(t *testing.T) {
	gate := New(Config{}).NewGate()
	gate.open(time.Now(), time.Now().Add(time.Hour))
	if n := testing.AllocsPerRun(1000, gate.Pass); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
