package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/store"
)

// waiting is an unanswered in virtual time.
type waiting struct {
	*unanswered
	t         *testing.T
	loads     atomic.Int64
	connected atomic.Bool
	finds     atomic.Int64
	lines     *observer.ObservedLogs
}

func testWaiting(t *testing.T, test func(w *waiting)) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		w := &waiting{t: t, lines: lines}
		w.connected.Store(true)
		w.unanswered = &unanswered{
			loading:   func() int { return int(w.loads.Load()) },
			connected: w.connected.Load,
			find:      func(context.Context, loads.Event) LoaderState { w.finds.Add(1); return NoLoader },
			log:       zap.New(core),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		test(w)
		cancel()
		<-done
	})
}

// ask begins a load.
func (w *waiting) ask() {
	w.loads.Add(1)
	w.asked(loads.Event{Tag: "order"})
}

// expect lets time pass and compares the number of lines, and whether loads are said to be
// unanswered.
func (w *waiting) expect(what string, after time.Duration, lines int, unanswered bool) {
	w.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := w.lines.Len(); got != lines || (w.err() != nil) != unanswered {
		w.t.Errorf("%s: %d lines, %v; want %d lines, unanswered %t", what, got, w.err(), lines, unanswered)
	}
}

// TestUnansweredIsSaidOnce: one line when no loader has answered for a while, and one when
// one does.
func TestUnansweredIsSaidOnce(t *testing.T) {
	testWaiting(t, func(w *waiting) {
		w.expect("nothing was asked for", time.Hour, 0, false)
		for episode := 1; episode <= 2; episode++ {
			w.ask()
			w.ask()
			w.expect("before patience is over", patience-time.Second, 2*episode-2, false)
			w.expect("after it", 2*time.Second, 2*episode-1, true)
			w.finds.Store(0)
			w.ask()
			w.expect("a minute later", time.Minute, 2*episode-1, true)
			if n := w.finds.Load(); n < 5 || n > 7 {
				t.Errorf("looked for loaders %d times in a minute, want 6", n)
			}
			if text := w.err().Error(); !strings.Contains(text, "3 loads unanswered for 1m11s; no loader is running") {
				t.Errorf("it says %q", text)
			}
			w.loads.Store(0)
			w.answered()
			w.expect("answered", time.Second, 2*episode, false)
		}
	})
}

// TestNotUnanswered: what is no reason to say that no loader answers.
func TestNotUnanswered(t *testing.T) {
	for what, during := range map[string]func(w *waiting){
		"one of several is answered now and then": func(w *waiting) { w.answered(); w.asked(loads.Event{}) },
		"the connection is lost":                  func(w *waiting) { w.connected.Store(false) },
		"the tag was removed":                     func(w *waiting) { w.loads.Store(0) },
	} {
		t.Run(what, func(t *testing.T) {
			testWaiting(t, func(w *waiting) {
				w.ask()
				w.ask()
				for range 20 {
					w.expect("before", patience/2, 0, false)
					during(w)
				}
			})
		})
	}
	// The time starts again with the next load, and with the connection.
	testWaiting(t, func(w *waiting) {
		w.ask()
		w.loads.Store(0)
		time.Sleep(time.Hour)
		w.ask()
		w.expect("the next load", patience-time.Second, 0, false)
		w.connected.Store(false)
		time.Sleep(time.Hour)
		w.connected.Store(true)
		w.expect("the connection is back", patience-2*time.Second, 0, false)
		w.expect("for long enough", 3*time.Second, 1, true)
	})
}

// TestAnsweredMeanwhile: an answer that comes while loaders are looked for ends it unsaid.
func TestAnsweredMeanwhile(t *testing.T) {
	testWaiting(t, func(w *waiting) {
		w.find = func(context.Context, loads.Event) LoaderState { w.answered(); return SomeLoader }
		w.ask()
		w.expect("answered", 2*patience, 0, false)
	})
}

// TestWhatCountsAsAnAnswer: a grant and a refusal do, whatever becomes of them; what another
// installation grants does not, nor what is meant for another process.
func TestWhatCountsAsAnAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		grant loads.Grant
		want  int
	}{
		"a grant":                {loads.Grant{Instance: "me", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend}, 1},
		"a refusal":              {loads.Grant{Instance: "me", Tag: "order", Refused: 404}, 1},
		"another installation's": {loads.Grant{Instance: "me", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend, Installation: "theirs"}, 0},
		"another process's":      {loads.Grant{Instance: "you", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend}, 0},
	} {
		answers := 0
		g := &grantReceiver{
			alloc:    allocator.New(allocator.Config{Clock: func() time.Duration { return 0 }, Load: func(allocator.Load) {}}),
			instance: "me", foreign: newForeignMessages("ours", zap.NewNop()), answered: func(string, uint64) { answers++ }, log: zap.NewNop(),
		}
		g.receive(&nats.Msg{Data: c.grant.Encode()})
		if answers != c.want {
			t.Errorf("%s counts as %d answers, want %d", what, answers, c.want)
		}
	}
}
