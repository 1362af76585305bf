package neighbours

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
)

// timing is how often hellos are said, and how long answers are waited for.
type timing struct {
	admit  time.Duration // how long a process that starts waits for answers
	hellos int           // how many it says meanwhile
	every  time.Duration // between two hellos of a process that runs, on average
	gone   int           // how many of them nobody answers until the others count as gone
}

// defaultTiming has a process leave within four seconds, when one of its own hellos is
// answered, and come back after about 20. At the start the answer may take as long as a
// link around the world.
var defaultTiming = timing{admit: 500 * time.Millisecond, hellos: 5, every: 3 * time.Second, gone: 6}

// Config says who watches, and what is to be done. All fields but Wait are required.
type Config struct {
	Conn   *nats.Conn
	Prefix messages.Prefix
	Self   Process

	// Leave takes the process out of all queue groups, and Return back in. They are called
	// from Run, one at a time.
	Leave  func(*ForeignError)
	Return func()

	Log *zap.Logger

	// Wait is how long Admit waits for answers where the server is near. The default is half a second.
	Wait time.Duration
}

// Watch watches for other installations. Call Admit, then Run; after Admit has succeeded,
// Close ends the subscriptions.
type Watch struct {
	cfg    Config
	timing timing
	met    chan Hello // of other installations
	subs   []*nats.Subscription

	serving atomic.Bool
	left    atomic.Pointer[ForeignError]
	heard   atomic.Int64 // hellos of other installations

	// Of Run alone.
	silent int             // own hellos since an older installation was met
	logged map[string]bool // younger installations
}

// New makes a watch. It does nothing until Admit is called.
func New(cfg Config) *Watch {
	timing := defaultTiming
	timing.admit = cmp.Or(cfg.Wait, timing.admit)
	return &Watch{cfg: cfg, timing: timing, met: make(chan Hello, 64), logged: make(map[string]bool)}
}

// Admit looks for other installations before the process serves. Its error is a
// [*ForeignError] if there is one that this process must not serve beside.
func (w *Watch) Admit(ctx context.Context) error {
	err := w.subscribe(ctx)
	if err == nil {
		err = w.lookAround(ctx)
	}
	if err != nil {
		return errors.Join(err, w.Close())
	}
	w.serving.Store(true)
	return nil
}

// subscribe returns when the server knows the subscriptions: answers must find them.
func (w *Watch) subscribe(ctx context.Context) error {
	hellos := Subject(w.cfg.Prefix)
	sub, err := w.cfg.Conn.QueueSubscribe(hellos, w.cfg.Self.Installation.ID, w.receiveHello)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", hellos, err)
	}
	w.subs = append(w.subs, sub)
	answers := AnswerSubject(w.cfg.Prefix, w.cfg.Self.Instance)
	if sub, err = w.cfg.Conn.Subscribe(answers, w.receiveAnswer); err != nil {
		return fmt.Errorf("subscribe to %s: %w", answers, err)
	}
	w.subs = append(w.subs, sub)
	began := time.Now()
	err = w.cfg.Conn.FlushWithContext(ctx)
	// Where the own server takes long to answer, because something is busy or far, so will
	// the others.
	w.timing.admit = min(max(w.timing.admit, slowFactor*time.Since(began)), slowest*w.timing.admit)
	return err
}

// How much longer answers are waited for than the server took to answer, and how much longer
// than usual that may be.
const (
	slowFactor = 50
	slowest    = 6
)

// lookAround says hello a few times and waits for answers. One hello is not enough: the
// process that gets it may be paused.
func (w *Watch) lookAround(ctx context.Context) error {
	end := time.After(w.timing.admit)
	again := time.NewTicker(w.timing.admit / time.Duration(w.timing.hellos))
	defer again.Stop()
	w.sayHello()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-again.C:
			w.sayHello()
		case h := <-w.met:
			if h.Serving || h.Installation.olderThan(w.cfg.Self.Installation) {
				return w.foreign(h)
			}
		}
	}
}

// Close ends the subscriptions.
func (w *Watch) Close() (err error) {
	for _, sub := range w.subs {
		if e := sub.Unsubscribe(); !errors.Is(e, nats.ErrConnectionClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Left says to which process of another installation this one has left the queue groups, or
// returns nil.
func (w *Watch) Left() *ForeignError { return w.left.Load() }

// Heard is how many hellos and answers of other installations have come.
func (w *Watch) Heard() int64 { return w.heard.Load() }

// Run says hello, leaves and comes back, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	hello := time.NewTimer(w.jitter() / 4) // the first one soon: others may have started meanwhile
	defer hello.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-w.met:
			w.judge(h)
		case <-hello.C:
			w.returnIfGone()
			w.sayHello()
			hello.Reset(w.jitter())
		}
	}
}

// jitter keeps processes that were started together apart.
func (w *Watch) jitter() time.Duration { return w.timing.every*3/4 + rand.N(w.timing.every/2) }

// judge decides what a process of another installation means for this one, which runs.
func (w *Watch) judge(h Hello) {
	own := w.cfg.Self.Installation
	switch {
	case !h.Serving: // it refuses to start, or has left
	case own.olderThan(h.Installation):
		w.logYounger(h)
	default:
		w.silent = 0
		w.leave(w.foreign(h))
	}
}

func (w *Watch) leave(why *ForeignError) {
	if w.left.Swap(why) != nil {
		return
	}
	w.serving.Store(false)
	w.cfg.Log.Error("leaving the queue groups: another installation, which is older, answers on the same subjects", zap.Error(why))
	w.cfg.Leave(why)
}

// maxLogged bounds the memory of what was logged.
const maxLogged = 100

func (w *Watch) logYounger(h Hello) {
	if id := h.Installation.ID; !w.logged[id] && len(w.logged) < maxLogged {
		w.logged[id] = true
		w.cfg.Log.Error("another installation, which is younger and has to leave, answers on the same subjects", zap.Error(w.foreign(h)))
	}
}

// returnIfGone comes back when enough hellos were not answered. What could not be sent was
// not answered either, but says nothing.
func (w *Watch) returnIfGone() {
	left := w.left.Load()
	if left == nil || !w.cfg.Conn.IsConnected() {
		return
	}
	if w.silent++; w.silent <= w.timing.gone {
		return
	}
	w.cfg.Log.Warn("back in the queue groups: the other installation is gone",
		zap.String("other", left.Other.Installation.ID))
	w.left.Store(nil)
	w.serving.Store(true)
	w.cfg.Return()
}

func (w *Watch) foreign(h Hello) *ForeignError {
	return &ForeignError{Prefix: w.cfg.Prefix, Own: w.cfg.Self, Other: h.Process}
}

// sayHello says hello to all installations, its own included.
func (w *Watch) sayHello() { w.publish(Subject(w.cfg.Prefix)) }

// publish sends a hello. One that cannot be sent is lost: the next one follows.
func (w *Watch) publish(subject string) {
	_ = w.cfg.Conn.Publish(subject, Hello{Process: w.cfg.Self, Serving: w.serving.Load()}.encode())
}

// receiveHello handles a hello that may be of any installation, and answers if it is another
// one's.
func (w *Watch) receiveHello(msg *nats.Msg) {
	if h, ok := w.receive(msg); ok {
		w.publish(AnswerSubject(w.cfg.Prefix, h.Instance))
	}
}

// receiveAnswer handles an answer to a hello of this process.
func (w *Watch) receiveAnswer(msg *nats.Msg) { w.receive(msg) }

// receive passes a hello on, unless it is of the own installation.
func (w *Watch) receive(msg *nats.Msg) (h Hello, foreign bool) {
	h, err := decodeHello(msg.Data)
	if err != nil {
		w.cfg.Log.Warn("hello ignored", zap.Error(err))
		return h, false
	}
	if h.Installation.ID == w.cfg.Self.Installation.ID {
		return h, false
	}
	w.heard.Add(1)
	select {
	case w.met <- h:
	default: // there are enough to judge, and more will come
	}
	return h, true
}
