package supply

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/worker/loadmsg"
)

// loadWatch is an unanswered in virtual time, with the loop's reactions.
type loadWatch struct {
	unanswered
	t       *testing.T
	loading int
	offline bool
	finding func() // happens during a look-up of loaders
	finds   int
	lines   *observer.ObservedLogs
}

func testUnanswered(t *testing.T, test func(w *loadWatch)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		test(&loadWatch{t: t, lines: lines, unanswered: unanswered{log: zap.New(core)}, finding: func() {}})
	})
}

// request begins a load.
func (w *loadWatch) request() {
	w.loading++
	w.requested(time.Now(), loadmsg.Event{Tag: "order"})
}

func (w *loadWatch) answer(g loadmsg.Grant) { w.answered(time.Now(), g) }

var storeFails = loadmsg.Grant{NotNow: loadmsg.NotNowStore, Reason: "no route to host"}

// expect lets time pass and compares the number of log lines, and whether loads
// count as unanswered.
func (w *loadWatch) expect(what string, after time.Duration, lines int, unanswered bool) {
	w.t.Helper()
	for range int(after / time.Second) {
		time.Sleep(time.Second)
		if w.look(time.Now(), w.loading, !w.offline) {
			w.finds++
			w.finding()
			w.found(NoLoader, w.loading)
		}
	}
	if got, e := w.lines.Len(), w.current.Load(); got != lines || (e != nil) != unanswered {
		w.t.Errorf("%s: %d lines, %v; want %d lines, unanswered %t", what, got, e, lines, unanswered)
	}
}

// TestUnansweredIsReportedOnce: a line after no loader has answered for a
// while, and a line when a loader answers again.
func TestUnansweredIsReportedOnce(t *testing.T) {
	testUnanswered(t, func(w *loadWatch) {
		w.expect("nothing was requested", time.Hour, 0, false)
		for episode := 1; episode <= 2; episode++ {
			w.request()
			w.request()
			w.expect("before patience is over", patience-time.Second, 2*episode-2, false)
			w.expect("after it", 2*time.Second, 2*episode-1, true)
			w.finds = 0
			w.request()
			w.expect("a minute later", time.Minute, 2*episode-1, true)
			if w.finds < 5 || w.finds > 7 {
				t.Errorf("looked for loaders %d times in a minute, want 6", w.finds)
			}
			if text := w.current.Load().Error(); !strings.Contains(text, "3 loads unanswered for 1m11s; no loader is running") {
				t.Errorf("it says %q", text)
			}
			w.loading = 0
			w.answer(loadmsg.Grant{})
			w.expect("answered", time.Second, 2*episode, false)
		}
	})
}

// TestUnansweredIsGivenUp: loads whose requests are gone end the state, but were
// not served.
func TestUnansweredIsGivenUp(t *testing.T) {
	testUnanswered(t, func(w *loadWatch) {
		w.request()
		w.expect("nothing is answered", 2*patience, 1, true)
		w.loading = 0
		w.expect("the requests are gone", time.Second, 2, false)
		if n := w.lines.FilterMessage("loads are served again").Len(); n > 0 {
			t.Error("logged as served")
		}
	})
}

// TestNotUnanswered lists states that are not reported as unanswered loads.
func TestNotUnanswered(t *testing.T) {
	for what, during := range map[string]func(w *loadWatch){
		"one of several is answered now and then": func(w *loadWatch) { w.answer(loadmsg.Grant{}); w.request() },
		"the connection is lost":                  func(w *loadWatch) { w.offline = true },
		"the tag was removed":                     func(w *loadWatch) { w.loading = 0 },
		"the store hangs for a tag": func(w *loadWatch) {
			w.answer(loadmsg.Grant{NotNow: loadmsg.NotNowTag})
			w.request()
		},
		"one of two stores fails": func(w *loadWatch) {
			w.answer(storeFails)
			w.answer(loadmsg.Grant{})
			w.request()
			w.answer(storeFails)
		},
	} {
		t.Run(what, func(t *testing.T) {
			testUnanswered(t, func(w *loadWatch) {
				w.request()
				w.request()
				for range 20 {
					w.expect("before", patience/2, 0, false)
					during(w)
				}
			})
		})
	}
	// The time restarts with the next load, and with the connection.
	testUnanswered(t, func(w *loadWatch) {
		w.request()
		w.loading = 0
		w.expect("no load is under way", time.Hour, 0, false)
		w.request()
		w.expect("the next load", patience-time.Second, 0, false)
		w.offline = true
		w.expect("offline", time.Hour, 0, false)
		w.offline = false
		w.expect("the connection is back", patience-2*time.Second, 0, false)
		w.expect("for long enough", 3*time.Second, 1, true)
	})
}

// TestAnsweredWhileLoadersAreLookedFor: such an answer counts, even if another
// load was requested after it.
func TestAnsweredWhileLoadersAreLookedFor(t *testing.T) {
	testUnanswered(t, func(w *loadWatch) {
		w.finding = func() { w.answer(loadmsg.Grant{}); w.request() }
		w.request()
		w.expect("answered", patience+5*time.Second, 0, false)
	})
}

// TestStoreOfLoadersFails: loaders that only answer that their store fails are
// reported with the reason, in a single line. No line is added when they end,
// or when other loaders come that cannot serve either.
func TestStoreOfLoadersFails(t *testing.T) {
	const declined, silent = "loaders cannot serve, store fails: no route to host", "no loader answers"
	for _, silentFirst := range []bool{false, true} {
		testUnanswered(t, func(w *loadWatch) {
			decline := func(seconds int) {
				for range seconds {
					w.request()
					w.answer(storeFails)
					w.expect("declined", time.Second, w.lines.Len(), w.current.Load() != nil)
				}
			}
			expect := func(what string) {
				t.Helper()
				w.expect(what, 0, 1, true)
				if text := w.current.Load().Error(); !strings.HasPrefix(text, what) {
					t.Errorf("it says %q, want %s", text, what)
				}
			}
			fallSilent := func() {
				w.request()
				w.expect(silent, 30*time.Second, 1, true)
				expect(silent)
			}
			if silentFirst {
				fallSilent()
			} else {
				decline(9)
				w.expect("before patience is over", 0, 0, false)
				w.request()
				w.answer(storeFails)
				w.expect("after it", 5*time.Second, 1, true)
				expect(declined)
				fallSilent()
			}
			decline(20)
			expect(declined)
			w.answer(loadmsg.Grant{})
			w.loading = 0
			w.expect("the store works", time.Second, 2, false)
		})
	}
}
