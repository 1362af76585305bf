// Package decision keeps the segments that a worker holds in line with the
// operator's latest decision.
//
// A raise of all tags, or a restore, decides that nothing that was granted
// before it is handed out any more. Workers learn of it from grants. A worker
// that gets none may have missed it: it was frozen, cut off from NATS, or needs
// no segment. So a [Watch] reads the installation's latest decision every few
// seconds, and also once contact with NATS was lost for some seconds and is back. A
// [Gate] holds requests until then.
//
// Without an answer of JetStream there is no evidence of a decision, so requests
// are answered from memory.
package decision

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/boottime"
	"github.com/idworker/idworker/internal/pause"
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
	// Look bounds a look, and Pass what a request waits for.
	Look, Pass time.Duration
	Log        *zap.Logger
}

const (
	lookEvery = 4 * time.Second // of a worker that is in contact
	lookAgain = time.Second     // after a look that failed
	askAgain  = 250 * time.Millisecond

	pulse = 100 * time.Millisecond
	// trust is the time for which contact is not in doubt. Beside running
	// processes a raise takes 5 s or more, so a process that was away in a shorter
	// time either was asked before it, and is waited for, or looks anyway.
	trust = 3 * time.Second
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
	gate    *Gate         // of the requests over NATS; or nil
	conn    *nats.Conn    // over which they arrive

	foreign agreement.Announcement // the latest about another installation
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
	var beats sync.WaitGroup
	defer beats.Wait()
	beats.Go(func() { w.beat(ctx) })
	next := time.NewTimer(0)
	defer next.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-next.C:
		}
		next.Reset(w.round(ctx))
	}
}

// beat notices when the process has slept, until ctx ends. It takes over what the
// own loader has adopted.
func (w *Watch) beat(ctx context.Context) {
	clock := boottime.Clock()
	for latest, awake := time.Now(), clock(); ctx.Err() == nil; latest, awake = time.Now(), clock() {
		pause.For(ctx, pulse)
		if w.cfg.Own != nil {
			w.cfg.Segments.Learn(w.cfg.Own())
		}
		// The clock of gates stands still in suspend.
		if clock().Sub(awake)-time.Since(latest) >= trust {
			w.awake.Close()
			if gate := w.current(); gate != nil {
				gate.Close()
			}
		}
		w.awake.Touch(time.Now())
	}
}

// round looks once, opens the gates, and returns the time until the next round.
func (w *Watch) round(ctx context.Context) time.Duration {
	w.mu.Lock()
	done := w.pending
	w.pending = nil
	w.mu.Unlock()
	began, every := time.Now(), lookEvery
	seen := began
	err := w.Look(ctx)
	if errors.Is(err, agreement.ErrDecision) { // JetStream has answered
		err = nil
	}
	if err != nil {
		seen, every = time.Now(), lookAgain
	}
	w.awake.open(began, seen)
	if gate := w.current(); gate != nil && (err == nil || gate.heardSince(began)) {
		gate.open(began, seen)
	}
	if done != nil {
		close(done)
	}
	return every*3/4 + rand.N(every/2)
}

// current is the gate of the requests over NATS, or nil.
func (w *Watch) current() *Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// now is the time since the Watch was made.
func (w *Watch) now() time.Duration { return time.Since(w.began) }

// Look reads the latest decision, and drops what was granted before it. After a
// decision about another installation everything is dropped, because that took
// the place of this one; its floor says nothing about grants of this one.
func (w *Watch) Look(ctx context.Context) error {
	d, err := w.read(ctx)
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

// read reads the latest decision over both connections, and again every askAgain:
// a connection that is lost looks alive until a write to it fails.
func (w *Watch) read(ctx context.Context) (d agreement.Announcement, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Look)
	var requests sync.WaitGroup
	defer requests.Wait()
	defer cancel()
	type reply struct {
		agreement.Announcement
		err error
	}
	replies := make(chan reply)
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for err = errAway; ; {
		connected := w.connected()
		for _, js := range connected {
			requests.Go(func() {
				d, err := agreement.Decided(ctx, js, w.cfg.Prefix)
				select {
				case replies <- reply{d, err}:
				case <-ctx.Done():
				}
			})
		}
		if len(connected) == 0 {
			return d, err
		}
		for waiting := true; waiting; {
			select {
			case r := <-replies:
				if r.err == nil || errors.Is(r.err, agreement.ErrDecision) {
					return r.Announcement, r.err
				}
				err = r.err
			case <-again.C:
				waiting = false
			case <-ctx.Done():
				return d, errors.Join(err, ctx.Err())
			}
		}
	}
}

// connected returns JetStream over each connection that is up, or seems to be:
// that for loads, where the answer does not queue behind requests, and that of
// the requests.
func (w *Watch) connected() (all []jetstream.JetStream) {
	if w.cfg.JS.Conn().IsConnected() {
		all = append(all, w.cfg.JS)
	}
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	if conn == nil || !conn.IsConnected() {
		return all
	}
	var js jetstream.JetStream
	var err error
	switch o := w.cfg.JS.Options(); {
	case o.Domain != "":
		js, err = jetstream.NewWithDomain(conn, o.Domain)
	case o.APIPrefix != "":
		js, err = jetstream.NewWithAPIPrefix(conn, o.APIPrefix)
	default:
		js, err = jetstream.New(conn)
	}
	if err == nil { // an invalid domain would have failed before
		all = append(all, js)
	}
	return all
}

// await returns when a look that began after this call has ended, or after
// Config.Pass.
func (w *Watch) await() {
	w.mu.Lock()
	if w.pending == nil {
		w.pending = make(chan struct{})
	}
	done := w.pending
	w.mu.Unlock()
	w.hurry()
	patience := time.NewTimer(w.cfg.Pass)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C: // no evidence
	case <-w.stopped:
	}
}

// hurry makes the Watch look now.
func (w *Watch) hurry() {
	select {
	case w.wake <- struct{}{}:
	default: // it does anyway
	}
}

// Pass is [Gate.Pass] for requests that do not come over NATS. They are answered
// while NATS is out of reach, so they wait only if the process was frozen, or is
// connected again.
func (w *Watch) Pass() { w.awake.Pass() }

// Gate is where requests pass that come over a connection to NATS. It is open
// while contact lasts. Once contact was lost, only a look opens it.
type Gate struct {
	watch *Watch
	// The times are by the clock of the Watch.
	touch  atomic.Int64 // until when contact lasted
	closed atomic.Int64 // contact from before does not count
	heard  atomic.Int64 // the latest contact, whether it lasted or not
}

// NewGate returns a closed Gate.
func (w *Watch) NewGate() *Gate { return &Gate{watch: w} }

// Touch records contact: the server has answered what was sent at that time. Its
// answer may come late: what a stalled network delivers at once, each piece sent
// shortly after the other, is no contact that lasted. So it extends contact only
// while the gate is open.
func (g *Gate) Touch(sent time.Time) {
	at, touch := int64(sent.Sub(g.watch.began)), g.touch.Load()
	g.heard.Store(at)
	switch {
	case at <= touch:
	case !g.isOpen(g.watch.now()): // a decision may have been missed
		g.watch.hurry()
	default:
		g.touch.CompareAndSwap(touch, at)
	}
}

// open opens the gate after a look that began at a time, unless it was closed
// since: contact lasts until seen.
func (g *Gate) open(began, seen time.Time) {
	if int64(began.Sub(g.watch.began)) > g.closed.Load() {
		g.touch.Store(max(g.touch.Load(), int64(seen.Sub(g.watch.began))))
	}
}

// heardSince reports whether there was contact since a time. Then JetStream could
// have answered, and its silence is an outage, which must not stop the worker.
// Without contact, a decision may be made until it is back.
func (g *Gate) heardSince(t time.Time) bool { return g.heard.Load() > int64(t.Sub(g.watch.began)) }

// Close makes the next requests wait for a look. It is called before a connection
// is made anew.
func (g *Gate) Close() {
	for _, gate := range []*Gate{g, g.watch.awake} {
		gate.closed.Store(math.MaxInt64) // no look that has begun opens it
		gate.closed.Store(int64(g.watch.now()))
	}
	g.watch.hurry()
}

// Over has the Watch open this gate, and look over its connection if need be.
func (g *Gate) Over(conn *nats.Conn) {
	g.watch.mu.Lock()
	defer g.watch.mu.Unlock()
	g.watch.gate, g.watch.conn = g, conn
}

// isOpen reports whether there was contact lately.
func (g *Gate) isOpen(now time.Duration) bool {
	touch := g.touch.Load()
	return touch > g.closed.Load() && int64(now)-touch < int64(trust)
}

// Pass returns at once if the gate is open. Otherwise it returns after a look for
// decisions, or after Config.Pass.
func (g *Gate) Pass() {
	if !g.isOpen(time.Since(g.watch.began)) {
		g.watch.await()
	}
}
