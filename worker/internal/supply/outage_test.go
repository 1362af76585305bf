package supply

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// fewestPlaces is the number of loads that a worker sends a second in an outage.
const fewestPlaces = 5

// startCallers starts callers, one per tag.
func startCallers(s *Supply, tags int, n int64) (callers []*caller) {
	for i := range tags {
		callers = append(callers, startCaller(s, fmt.Sprint("tag-", i), n))
	}
	return callers
}

// awaitServed lets virtual time pass until all callers are served.
func awaitServed(t *testing.T, callers []*caller, within time.Duration) {
	t.Helper()
	began := time.Now()
	for unserved(callers) > 0 {
		if time.Since(began) > within {
			t.Fatalf("%d of %d callers are not served after %v", unserved(callers), len(callers), within)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("served within %v", time.Since(began).Round(50*time.Millisecond))
}

// TestOutageIsCalm: while loaders do not serve, a worker requests five loads a
// second, however many tags are in demand, and whether loaders are silent or
// decline at once. All are served when loaders serve again.
func TestOutageIsCalm(t *testing.T) {
	t.Parallel()
	for what, outage := range map[string]func(f *fakeLoader){
		"silent":     func(f *fakeLoader) { f.silent = true },
		"store down": func(f *fakeLoader) { f.reply = func(loadmsg.Event, int) loadmsg.Grant { return storeFails } },
	} {
		for _, order := range []store.Order{store.Trend, store.Strict} {
			t.Run(fmt.Sprint(what, ", ", order), func(t *testing.T) {
				t.Parallel()
				testVirtual(t, order, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
					// The worker has been granted them from then on.
					awaitServed(t, startCallers(s, 3_000, 1), time.Minute)
					f.change(func() { outage(f) })
					callers := startCallers(s, 3_000, 1000)
					time.Sleep(10 * time.Second)
					before := f.count()
					time.Sleep(time.Minute)
					if n := f.count() - before; n > 61*fewestPlaces || n < 50*fewestPlaces {
						t.Errorf("%d loads were requested in a minute, want %d a second", n, fewestPlaces)
					}
					f.change(func() { f.silent, f.reply = false, nil })
					awaitServed(t, callers, 10*time.Second)
				})
			})
		}
	}
}

// TestUnknownTagsInAnOutage: tags that were never granted are requested as
// rarely.
func TestUnknownTagsInAnOutage(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Trend, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
		f.silent = true
		callers := startCallers(s, 500, 1)
		time.Sleep(10 * time.Second)
		before := f.count()
		time.Sleep(time.Minute)
		if n := f.count() - before; n > 61*fewestPlaces {
			t.Errorf("%d loads were requested in a minute", n)
		}
		f.change(func() { f.silent = false })
		awaitServed(t, callers, time.Minute)
	})
}

// TestOneOfTwoStoresFails: a loader whose store fails does not delay the loads
// that another loader serves.
func TestOneOfTwoStoresFails(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Trend, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
		awaitServed(t, startCallers(s, 500, 1), time.Minute)
		f.change(func() {
			f.reply = func(_ loadmsg.Event, before int) (g loadmsg.Grant) {
				if before%2 == 0 {
					g = storeFails
				}
				return g
			}
		})
		awaitServed(t, startCallers(s, 500, 1000), 20*time.Second)
		if err := s.Unanswered(); err != nil {
			t.Error(err)
		}
	})
}

// TestLoadsAgainLetOthersPass: repeated loads that no loader serves let
// first-time loads pass.
func TestLoadsAgainLetOthersPass(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Trend, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
		const tags = 100
		awaitServed(t, startCallers(s, tags, 1), time.Minute)
		fine := fmt.Sprint("tag-", tags-1)
		f.change(func() {
			f.reply = func(e loadmsg.Event, _ int) (g loadmsg.Grant) {
				if e.Tag != fine {
					g = storeFails
				}
				return g
			}
		})
		startCallers(s, tags-1, 1000)
		time.Sleep(time.Minute)
		awaitServed(t, []*caller{startCaller(s, fine, 1000)}, 2*time.Second)
		f.change(func() { f.reply = nil })
	})
}

// TestHungTagsDelayNoOther: tags with hanging store calls are requested less
// and less often, and take no room from the others.
func TestHungTagsDelayNoOther(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Trend, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
		awaitServed(t, startCallers(s, 500, 1), time.Minute)
		hangs := func(tag string) bool { return strings.HasSuffix(tag, "0") }
		f.change(func() {
			f.reply = func(e loadmsg.Event, _ int) (g loadmsg.Grant) {
				if hangs(e.Tag) {
					g.NotNow = loadmsg.NotNowTag
				}
				return g
			}
		})
		var fine, hung []*caller
		for _, c := range startCallers(s, 500, 1000) {
			if hangs(c.tag) {
				hung = append(hung, c)
			} else {
				fine = append(fine, c)
			}
		}
		awaitServed(t, fine, 2*time.Second)
		before := f.count()
		time.Sleep(64 * time.Second)
		if n := f.count() - before; n > 10*len(hung) {
			t.Errorf("%d loads were requested in a minute for %d tags that hang", n, len(hung))
		}
		f.change(func() { f.reply = nil })
		awaitServed(t, hung, 20*time.Second)
	})
}

// TestStrictLoadIsAsItIsSent: a waiting strict load is sent for all requests
// parked at that time, and for none that has left. A repetition is the same
// load, and later requests wait for the next.
func TestStrictLoadIsAsItIsSent(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Strict, time.Minute/4, func(t *testing.T, s *Supply, f *fakeLoader) {
		var known []*caller
		tags := []string{"order", "gone"}
		for n := range 2 * fewestPlaces {
			tags = append(tags, fmt.Sprint("busy-", n))
		}
		for _, tag := range tags {
			known = append(known, startCaller(s, tag, 1))
		}
		awaitServed(t, known, 10*time.Second)
		f.change(func() { f.silent = true })
		for _, tag := range tags[2:] {
			startCaller(s, tag, 1)
		}
		time.Sleep(3 * time.Second) // the window is minimal
		before := f.count()
		first := startCaller(s, "order", 3)
		gone := startCaller(s, "gone", 3)
		synctest.Wait()
		if n := f.count() - before; n != 0 {
			t.Fatalf("%d loads were requested, want the window to be full", n)
		}
		second := startCaller(s, "order", 4)
		s.Allocator().Withdraw("gone", gone)
		f.change(func() { f.events = nil })
		of := func(tag string) (events []loadmsg.Event) {
			for _, e := range f.seen() {
				if e.Tag == tag {
					events = append(events, e)
				}
			}
			return events
		}
		for len(of("order")) == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		third := startCaller(s, "order", 5)
		for len(of("order")) == 1 {
			time.Sleep(50 * time.Millisecond)
		}
		f.change(func() { f.silent = false })
		awaitServed(t, []*caller{first, second, third}, 10*time.Second)
		events := of("order")
		if events[0].Want != 7 {
			t.Errorf("the load was sent for %d IDs, want 7 for the two requests that were parked by then", events[0].Want)
		}
		for _, e := range events {
			if e.Seq == events[0].Seq && e.Want != events[0].Want {
				t.Errorf("sent again, the load was for %d IDs, at first for %d", e.Want, events[0].Want)
			}
		}
		if third.ids[0].First < second.ids[0].End || first.ids[0].First != 2 {
			t.Errorf("granted %v, %v, then %v; want ascending IDs from 2 on", first.ids, second.ids, third.ids)
		}
		if n := len(of("gone")); n > 0 {
			t.Errorf("a load that was not wanted any more was requested %d times", n)
		}
	})
}

// TestRefillsWithoutStream: while the stream is unavailable, refills go
// directly to a loader: at once, except for the first and one a second, which
// try the stream.
func TestRefillsWithoutStream(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Trend, usualWait, func(t *testing.T, s *Supply, _ *fakeLoader) {
		// More than half of each segment, so that another is due.
		callers := startCallers(s, 500, 6)
		awaitServed(t, callers, time.Minute)
		time.Sleep(time.Second)
		for _, tag := range s.Figures(500).Tags {
			if tag.Left <= 4 {
				t.Fatalf("%s has %d IDs left: its refill did not come", tag.Tag, tag.Left)
			}
		}
	})
}

// idleStream is a JetStream whose load stream no loader consumes.
type idleStream struct{ jetstream.JetStream }

func (idleStream) Publish(context.Context, string, []byte, ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return new(jetstream.PubAck), nil
}

// TestParkedRequestsGoStraight: a load with parked requests bypasses the
// stream, even if it went there before they came.
func TestParkedRequestsGoStraight(t *testing.T) {
	t.Parallel()
	for _, order := range []store.Order{store.Trend, store.Strict} {
		testVirtual(t, order, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
			s.cfg.JS = idleStream{}
			// Unknown; a refill, which stays in the stream; and parked.
			for _, n := range []int64{1, 5, 1000} {
				awaitServed(t, []*caller{startCaller(s, "order", n)}, 200*time.Millisecond)
				time.Sleep(10 * time.Millisecond)
			}
			for _, e := range f.seen() {
				if e.Want == 0 {
					t.Errorf("a refill went straight to a loader: %+v", e)
				}
			}
		})
	}
}

// TestFrozenLoader: an unanswered strict or unknown load is soon requested
// again, because another loader may get it then.
func TestFrozenLoader(t *testing.T) {
	t.Parallel()
	testVirtual(t, store.Strict, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
		for range 2 { // unknown, then strict
			f.change(func() { f.silent = true })
			c := startCaller(s, "order", 1)
			synctest.Wait()
			f.change(func() { f.silent = false })
			awaitServed(t, []*caller{c}, 300*time.Millisecond)
		}
	})
}
