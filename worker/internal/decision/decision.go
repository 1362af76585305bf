// Package decision keeps the segments that a worker holds in line with the
// operator's latest decision.
//
// A raise of all tags, or a restore, decides that nothing that was granted
// before it is handed out any more. Workers learn of it from grants. A worker
// that gets none may have missed it: it was frozen, cut off from NATS, or needs
// no segment. So a [Watch] reads the installation's latest decision every few
// seconds, and a [Gate] holds the requests that reach the worker after a time
// without contact until the Watch has looked.
//
// Without an answer of JetStream there is no evidence of a decision, so requests
// are answered from memory.
package decision

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/boottime"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// segments are what a worker holds.
type segments interface {
	// Learn drops what was granted under a lower floor than the given one.
	Learn(floor int64)

	// Void drops everything, after a decision with that floor about another
	// installation.
	Void(floor int64)
}

// Config configures a [Watch]. All fields but Own must be set.
type Config struct {
	JS           jetstream.JetStream
	Prefix       messages.Prefix
	Installation string
	// Own returns the floor that the process's own loader has adopted. It is nil
	// if the process is no loader.
	Own      func() int64
	Segments segments
	Log      *zap.Logger
}

const (
	lookEvery  = 4 * time.Second // of a worker that is in contact
	lookAgain  = time.Second     // after a look that failed
	lookWithin = time.Second     // bounds a look, and so what a request waits for

	pulse = 100 * time.Millisecond
	// trust is the time for which contact is not in doubt. The shortest raise
	// beside running processes takes longer.
	trust = time.Second
)

// Watch looks for decisions.
type Watch struct {
	cfg     Config
	began   time.Time
	awake   *Gate         // touched while the process runs
	wake    chan struct{} // for a look; capacity 1
	stopped chan struct{}

	mu      sync.Mutex
	pending chan struct{} // closed when the next look to begin ends; or nil
	conn    *nats.Conn    // over which requests arrive; or nil

	foreign agreement.Decision // the latest about another installation
}

// New returns a Watch that does not look yet.
func New(cfg Config) *Watch {
	w := &Watch{cfg: cfg, began: time.Now(), wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	w.awake = w.NewGate()
	return w
}

// Run looks until ctx ends. It is called once.
func (w *Watch) Run(ctx context.Context) {
	defer close(w.stopped)
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	latest, clock := time.Now(), boottime.Clock()
	awake := clock()
	for next := time.Duration(0); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-ticker.C:
			if w.cfg.Own != nil {
				w.cfg.Segments.Learn(w.cfg.Own())
			}
			// The clock of gates stands still in suspend.
			suspended := clock().Sub(awake) - time.Since(latest)
			latest, awake = time.Now(), clock()
			if now := w.now(); w.awake.isOpen(now) && now < next && suspended < trust {
				w.awake.Touch(latest)
				continue
			}
		}
		w.mu.Lock()
		done := w.pending
		w.pending = nil
		w.mu.Unlock()
		began, every := time.Now(), lookEvery
		if w.Look(ctx) != nil {
			every = lookAgain
		}
		w.awake.Touch(began)
		next = w.now() + every*3/4 + rand.N(every/2)
		if done != nil {
			close(done)
		}
	}
}

// now is the time since the Watch was made.
func (w *Watch) now() time.Duration { return time.Since(w.began) }

// Look reads the latest decision, and drops what was granted before it. After a
// decision about another installation everything is dropped, because that took
// the place of this one; its floor says nothing about grants of this one.
func (w *Watch) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	js, err := w.reachable()
	if err != nil {
		return err
	}
	d, err := agreement.Decided(ctx, js, w.cfg.Prefix)
	switch {
	case err != nil:
		return err
	case d.Installation == "" || d.Installation == w.cfg.Installation:
		w.cfg.Segments.Learn(max(1, d.Floor))
	case d != w.foreign:
		w.foreign = d
		w.cfg.Log.Error("tags of another installation were raised in this place; all segments are dropped", zap.String("other", d.Installation), zap.String("own", w.cfg.Installation))
		w.cfg.Segments.Void(d.Floor)
	}
	return nil
}

var errAway = errors.New("not connected to NATS")

// reachable returns a JetStream to ask: over the connection of requests if that
// is up, since it may be back before the other.
func (w *Watch) reachable() (jetstream.JetStream, error) {
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	switch o := w.cfg.JS.Options(); {
	case conn == nil || !conn.IsConnected():
		if !w.cfg.JS.Conn().IsConnected() {
			return nil, errAway
		}
		return w.cfg.JS, nil
	case o.Domain != "":
		return jetstream.NewWithDomain(conn, o.Domain)
	case o.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(conn, o.APIPrefix)
	default:
		return jetstream.New(conn)
	}
}

// await returns when a look that began after this call has ended.
func (w *Watch) await() {
	w.mu.Lock()
	if w.pending == nil {
		w.pending = make(chan struct{})
	}
	done := w.pending
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it wakes anyway
	}
	select {
	case <-done:
	case <-w.stopped:
	}
}

// Pass is [Gate.Pass] for requests that do not come over NATS. They are answered
// while NATS is out of reach, so only a process that was frozen looks first.
func (w *Watch) Pass() { w.awake.Pass() }

// Gate is where requests pass that come over a connection to NATS.
type Gate struct {
	watch  *Watch
	touch  atomic.Int64 // when there was contact, by the clock of the Watch
	closed atomic.Int64 // contact from before does not count
}

// NewGate returns a Gate of a way to the worker without contact yet.
func (w *Watch) NewGate() *Gate { return &Gate{watch: w} }

// Touch records contact: the server has answered what was sent at that time.
func (g *Gate) Touch(sent time.Time) {
	if at := int64(sent.Sub(g.watch.began)); at > g.touch.Load() {
		g.touch.Store(at)
	}
}

// Close makes the next request wait for a look. It is called before a connection
// is made anew.
func (g *Gate) Close() { g.closed.Store(int64(g.watch.now())) }

// Over has the Watch look over this connection from now on.
func (g *Gate) Over(conn *nats.Conn) {
	g.watch.mu.Lock()
	defer g.watch.mu.Unlock()
	g.watch.conn = conn
}

// isOpen reports whether there was contact lately.
func (g *Gate) isOpen(now time.Duration) bool {
	touch := g.touch.Load()
	return touch > g.closed.Load() && int64(now)-touch < int64(trust)
}

// Pass returns at once if there was contact within the latest second. Otherwise
// it returns after a look for decisions, which takes a second at most.
func (g *Gate) Pass() {
	if g.isOpen(g.watch.now()) {
		return
	}
	began := time.Now()
	g.watch.await()
	g.Touch(began)
}
