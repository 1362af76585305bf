package supply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/loadmsg"
)

// TestPauseForUnknownNames: after a refusal with a pause, all names that are
// unknown to the worker are refused for that time, without a load. Tags that it
// holds are served and loaded.
func TestPauseForUnknownNames(t *testing.T) {
	t.Parallel()
	for _, order := range []store.Order{store.Trend, store.Strict} {
		testVirtual(t, order, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
			const pause = 50 * time.Millisecond
			awaitServed(t, []*caller{startCaller(s, "known", 1)}, time.Second)
			f.change(func() {
				f.reply = func(e loadmsg.Event, _ int) (g loadmsg.Grant) {
					if e.Tag == "made-up" {
						g = loadmsg.Grant{Refused: messages.CodeBusy, Reason: "flooded", Pause: pause.Milliseconds()}
					}
					return g
				}
			})
			request := func(tag string) error {
				c := &caller{s: s, tag: tag, n: 100} // more than a segment
				c.request()
				time.Sleep(10 * time.Millisecond) // virtual: an answer takes one
				c.mu.Lock()
				defer c.mu.Unlock()
				if len(c.errs) > 0 {
					return c.errs[0]
				}
				if c.ids == nil {
					return errors.New("no reply")
				}
				return nil
			}
			if err := request("made-up"); !errors.Is(err, messages.ErrBusy) {
				t.Fatalf("%s: the refused name: %v", order, err)
			}
			began := f.count()
			err := request("other")
			if reply, ok := errors.AsType[*messages.Error](err); !ok || *reply != (messages.Error{Code: messages.CodeBusy, Text: "flooded"}) {
				t.Errorf("%s: another unknown name during the pause: %v, want the loader's refusal", order, err)
			}
			if n := f.count() - began; n != 0 {
				t.Errorf("%s: %d loads were requested for unknown names during the pause", order, n)
			}
			if err := request("known"); err != nil {
				t.Errorf("%s: a known tag during the pause: %v", order, err)
			}
			time.Sleep(pause)
			if err := request("new"); err != nil {
				t.Errorf("%s: an unknown name after the pause: %v", order, err)
			}
		})
	}
}

// TestUnansweredNamesTheLoaders: the report of unanswered loads contains that
// the process is a loader itself, or what may be the reason if nothing was
// found out about loaders.
func TestUnansweredNamesTheLoaders(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t).Connect(t)
	conn.Close() // so that looking for loaders finds nothing out
	for want, own := range map[LoaderState]func(loadmsg.Event) bool{OwnLoader: silentLoader, LoadersUnknown: nil} {
		cfg := config(conn)
		cfg.Own = own
		s := New(cfg)
		now := time.Now()
		s.unanswered.requested(now.Add(-patience), loadmsg.Event{Instance: "me", Tag: "order", Want: 1})
		if !s.unanswered.look(now, 1, true) {
			t.Fatal("no look for loaders, although none answers")
		}
		s.lookForLoaders(s.unanswered.latest)
		if own == nil {
			s.unanswered.found(<-s.loaders, 1)
		}
		s.goroutines.Stop()
		text := map[LoaderState]string{
			OwnLoader:      "; this process is a loader, its store may be down",
			LoadersUnknown: "; no loader runs, or its store is down",
		}[want]
		var report *UnansweredError
		if err := s.Unanswered(); !errors.As(err, &report) || report.Loaders != want || !strings.HasSuffix(err.Error(), text) {
			t.Errorf("reported is %v, want one that ends in %q", err, text)
		}
	}
}

// silentLoader is an own loader that never answers.
func silentLoader(loadmsg.Event) bool { return true }

// impatient keeps a request parked in each tag, for the given time. The callers
// give up after 0.2 s, and try again.
func impatient(s *Supply, tags []string, during time.Duration) {
	const each, parts = 200 * time.Millisecond, 10 // not all at once
	parked := make([]*caller, len(tags))
	for began, part := time.Now(), 0; time.Since(began) < during; part++ {
		for i := part % parts; i < len(tags); i += parts {
			if parked[i] != nil {
				s.Allocator().Withdraw(tags[i], parked[i])
			}
			parked[i] = startCaller(s, tags[i], 1)
		}
		time.Sleep(each / parts)
	}
	for i, tag := range tags {
		s.Allocator().Withdraw(tag, parked[i])
	}
	synctest.Wait()
}

// TestImpatientCallersAreCalm: while no loader answers, callers that give up
// and try again cause five loads a second at most, like callers that wait. They
// request IDs of strict tags, or of names that are made up.
func TestImpatientCallersAreCalm(t *testing.T) {
	t.Parallel()
	for what, known := range map[string]bool{"strict": true, "made up": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			testVirtual(t, store.Strict, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
				const tags = 30
				var names []string
				for i := range tags {
					names = append(names, fmt.Sprint("tag-", i))
				}
				if known {
					awaitServed(t, startCallers(s, tags, 1), time.Minute)
				}
				f.change(func() { f.silent = true })
				impatient(s, names, 5*time.Second)
				before := f.count()
				impatient(s, names, 30*time.Second)
				if n := f.count() - before; n > 31*5 {
					t.Errorf("%d loads were requested in half a minute, want five a second at most", n)
				}
			})
		})
	}
}
