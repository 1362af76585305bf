package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker/loadmsg"
)

// waits returns the longest time that demand for one of the tags took, with a
// pause between them, for the given time.
func (w *fakeWorker) waits(tags []string, pause, during time.Duration) (longest time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, tag := range tags {
		all.Go(func() {
			for began := time.Now(); time.Since(began) < during; time.Sleep(pause) {
				took := w.demand(tag, time.Minute)
				mu.Lock()
				longest = max(longest, took)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return longest
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// hang makes tags hang for good.
func (s *fakeStore) hang(tags ...string) {
	s.set(func(s *fakeStore) {
		for _, tag := range tags {
			s.bad[tag] = errHangs
		}
	})
}

// TestTagsThatHangDelayNobody: locked rows, 60 of 100 or 100 of 220, delay
// other tags by a moment, in any order of arrival, and however seldom the
// others come. When the rows are free, their tags get segments.
func TestTagsThatHangDelayNobody(t *testing.T) {
	type rows struct{ locked, others int }
	seeds, during := tier.Pick[uint64](1, 20), tier.Pick(15*time.Second, time.Minute)
	for _, n := range []rows{{60, 40}, {100, 120}} {
		for _, pause := range []time.Duration{50 * time.Millisecond, time.Second, 7 * time.Second} {
			// Of the first requests.
			for _, spread := range []time.Duration{0, time.Second, 3 * time.Second} {
				for seed := range seeds {
					t.Run(fmt.Sprint(n, ", others every ", pause, ", locked within ", spread, ", seed ", seed), func(t *testing.T) {
						testLoader(t, 16, func(t *testing.T, _ *Loader, s *fakeStore, w *fakeWorker) {
							locked := names("locked", n.locked)
							s.hang(locked...)
							var waiting sync.WaitGroup
							seeded := rand.New(rand.NewPCG(seed, 2))
							for _, tag := range locked {
								delay := time.Duration(seeded.Int64N(int64(spread) + 1))
								waiting.Go(func() {
									time.Sleep(delay)
									if w.demand(tag, 10*time.Minute) == 10*time.Minute {
										t.Errorf("%s gets nothing after it is free", tag)
									}
								})
							}
							if spread == 0 {
								time.Sleep(time.Millisecond)
							}
							if longest := w.waits(names("other", n.others), pause, during); longest > 1500*time.Millisecond {
								t.Errorf("another tag has waited %v", longest)
							}
							if n := w.answered(); n["tag"] == 0 || n["store"] > 0 && pause <= time.Second {
								t.Errorf("answers: %v; want not now for tags, and none for the store, which works all the time", n)
							}
							s.set(func(s *fakeStore) { clear(s.bad) })
							waiting.Wait()
						})
					})
				}
			}
		}
	}
}

// TestSlowTagIsServed: a tag with long calls is served, although other tags
// want all slots all the time.
func TestSlowTagIsServed(t *testing.T) {
	testLoader(t, 16, func(t *testing.T, _ *Loader, s *fakeStore, w *fakeWorker) {
		s.slow = map[string]time.Duration{"slow": 2 * time.Second}
		var others sync.WaitGroup
		others.Go(func() { w.waits(names("", 100), 0, time.Minute) })
		for range 3 {
			if took := w.demand("slow", time.Minute); took > 10*time.Second {
				t.Errorf("the slow tag has waited %v", took)
			}
		}
		others.Wait()
	})
}

// TestSlowStore: a store that is slow for all tags serves all of them: the
// limit adapts to the duration of calls.
func TestSlowStore(t *testing.T) {
	for _, delay := range []time.Duration{407 * time.Millisecond, 1007 * time.Millisecond, 2507 * time.Millisecond} {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprint(delay, ", before fast: ", warm), func(t *testing.T) {
				testLoader(t, 16, func(t *testing.T, _ *Loader, s *fakeStore, w *fakeWorker) {
					tags := names("", 100)
					if warm {
						w.waits(tags, 100*time.Millisecond, 10*time.Second)
					}
					s.set(func(s *fakeStore) { s.delay = delay })
					longest := w.waits(tags, time.Hour, time.Second)
					if longest > 10*time.Second+100/16*2*delay {
						t.Errorf("a tag has waited %v", longest)
					}
					before := s.calls()
					// Now it has been granted before.
					longest = w.waits(names("new", 100), time.Hour, time.Second)
					if calls := s.calls() - before; calls > 120 || longest > 8*delay {
						t.Errorf("%d calls for 100 tags, the last of which waited %v", calls, longest)
					}
					s.set(func(s *fakeStore) { s.delay = 10 * time.Millisecond })
				})
			})
		}
	}
}

// TestOutage: thousands of tags in demand cost a failing store less than 1.5
// calls a second, whether it hangs or returns an error. Loads of the process
// itself are left to other loaders during that time. When the store is back,
// all are served, each with about one call.
func TestOutage(t *testing.T) {
	// Hanging calls have all slots.
	for down, slots := range map[error]int{errAway: 64, errHangs: 2} {
		t.Run(down.Error(), func(t *testing.T) {
			testLoader(t, slots, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
				const outage = 20 * time.Second
				tags := tier.Pick(3_000, 10_000)
				s.set(func(s *fakeStore) { s.down = down })
				var all sync.WaitGroup
				for _, tag := range names("", tags) {
					all.Go(func() { w.demand(tag, time.Hour) })
				}
				// The breaker is open.
				time.Sleep(6 * time.Second)
				if l.Load(load("own", 1, 0)) {
					t.Error("the loader does not leave the process's own loads to others")
				}
				before := s.calls()
				time.Sleep(outage)
				if calls := s.calls() - before; calls > int(1.4*outage.Seconds()) || calls < 10 {
					t.Errorf("%d calls in an outage of %v", calls, outage)
				}
				s.set(func(s *fakeStore) { s.down = nil })
				before = s.calls()
				for back := time.Now(); len(s.served()) == 0; time.Sleep(10 * time.Millisecond) {
					if time.Since(back) > 1500*time.Millisecond {
						t.Fatal("the store is back, and not called")
					}
				}
				all.Wait()
				if calls := s.calls() - before; calls > tags+tags/20 {
					t.Errorf("%d tags are served after the outage, with %d calls", tags, calls)
				}
			})
		})
	}
}

// TestTagThatAlwaysFails: such a tag neither makes the store fail for others,
// nor do they wait for it, whether it hangs or its entry cannot be read. It is
// reported.
func TestTagThatAlwaysFails(t *testing.T) {
	for _, bad := range []error{errAway, errHangs, fmt.Errorf("%w: no number", store.ErrCorrupt)} {
		t.Run(bad.Error(), func(t *testing.T) {
			testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
				s.set(func(s *fakeStore) { s.bad["bad"] = bad })
				w.demand("good", time.Minute)
				var failing sync.WaitGroup
				failing.Go(func() { w.demand("bad", time.Hour) })
				for n := range 100 {
					time.Sleep(30 * time.Second) // without other calls
					if took := w.demand(fmt.Sprint(n), time.Minute); took > probePause+2*s.delay {
						t.Fatalf("another tag has waited %v", took)
					}
				}
				if f := l.Figures().Failures; f.Tags != 1 || f.Named[0].Tag != "bad" {
					t.Errorf("reported are %+v, want the bad tag", f)
				}
				failing.Wait()
				// While it is the only evidence about the store, and when it
				// may be the next outage.
				most := int64(2)
				if errors.Is(bad, store.ErrCorrupt) {
					most = 0
				}
				if n := l.Figures().Outage.Times; n > most {
					t.Errorf("%d outages, want at most %d", n, most)
				}
				if calls := s.callsFor("bad"); calls > 3700 {
					t.Errorf("%d calls for the bad tag in an hour", calls)
				}
			})
		})
	}
}

// TestFailedTagIsUnknown: a tag that failed is no longer reported once the store
// answers that it does not exist.
func TestFailedTagIsUnknown(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
		for _, c := range []struct {
			err      error
			reported int
		}{{fmt.Errorf("%w: no number", store.ErrCorrupt), 1}, {store.ErrNoTag, 0}} {
			s.set(func(s *fakeStore) { s.bad["bad"] = c.err })
			w.demand("bad", 3*time.Second)
			if f := l.Figures().Failures; f.Tags != c.reported {
				t.Errorf("%v: reported are %+v, want %d", c.err, f, c.reported)
			}
		}
	})
}

// TestIdleLoader: a loader without load events detects that the store fails, and
// that it works again, at the cost of a read every idleTime.
func TestIdleLoader(t *testing.T) {
	for _, down := range []error{errAway, errHangs} {
		t.Run(down.Error(), func(t *testing.T) {
			testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
				const idle = 10 * time.Minute
				time.Sleep(idle)
				if n := s.probed(); n < 10 || n > int(idle/idleTime)+1 {
					t.Errorf("%d probes in %v", n, idle)
				}
				s.set(func(s *fakeStore) { s.down = down })
				time.Sleep(idleTime + 3*(DefaultTimeout+probePause))
				if outage := l.Figures().Outage; !outage.Now {
					t.Errorf("%+v, want an outage", outage)
				}
				s.set(func(s *fakeStore) { s.down = nil })
				time.Sleep(hangTime + DefaultTimeout + 2*probePause)
				if outage := l.Figures().Outage; outage.Now || outage.Times != 1 {
					t.Errorf("%+v, want one that has ended", outage)
				}
				if took := w.demand("a", time.Minute); took > probePause {
					t.Errorf("a tag has waited %v after the outage", took)
				}
			})
		})
	}
}

// TestProbesWriteAfterAFailure: a store that refuses writes fails, however well
// it answers reads, until it takes writes again. That needs no request.
func TestProbesWriteAfterAFailure(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		s.set(func(s *fakeStore) { s.readOnly = errAway })
		time.Sleep(time.Hour)
		if outage := l.Figures().Outage; outage.Times != 0 {
			t.Errorf("%+v before a write failed", outage)
		}
		l.take(load("a", 1, 0))
		time.Sleep(time.Hour)
		if outage := l.Figures().Outage; !outage.Now || outage.Times != 1 {
			t.Errorf("%+v after a refused write, want one that lasts", outage)
		}
		s.set(func(s *fakeStore) { s.readOnly = nil })
		time.Sleep(idleTime)
		if outage := l.Figures().Outage; outage.Now || outage.Times != 1 {
			t.Errorf("%+v once writes succeed, want one that has ended", outage)
		}
	})
}

// TestReadOnlyStore: names that do not exist are looked up and refused, or just
// refused. That does not hide that the store accepts no writes, nor that it
// does again.
func TestReadOnlyStore(t *testing.T) {
	for _, lookups := range []rate.Limit{missesPerSecond, 0.1, 0.001} {
		t.Run(fmt.Sprint(lookups, " look-ups a second"), func(t *testing.T) {
			testLoader(t, 64, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
				request := func(n int) {
					for range n {
						for _, tag := range []string{"a", "b", "c"} {
							l.take(load(tag, 1, 0))
						}
						e := load(fmt.Sprint("N", time.Now().UnixNano()), 1, 0)
						e.Unknown = true
						l.take(e)
						time.Sleep(500 * time.Millisecond)
					}
				}
				l.lookup.misses = rate.NewLimiter(lookups, 1)
				s.set(func(s *fakeStore) { s.readOnly = errAway })
				request(10)
				if outage := l.Figures().Outage; !outage.Now || outage.Error != errAway.Error() || outage.Times != 1 {
					t.Fatalf("%+v, want one that lasts", outage)
				}
				before := s.calls()
				request(40)
				if calls := s.calls() - before; calls > 40 {
					t.Errorf("%d writes in 20 s", calls)
				}
				s.set(func(s *fakeStore) { s.readOnly = nil })
				request(10)
				if n := len(s.served()); n < 3 || l.Figures().Outage.Now {
					t.Errorf("%d tags served, %+v, five seconds after the store takes writes", n, l.Figures().Outage)
				}
			})
		})
	}
}

// TestEveryLoadIsAnswered: by a grant, a refusal, or not now, once.
func TestEveryLoadIsAnswered(t *testing.T) {
	testLoader(t, 16, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
		s.hang("hangs")
		s.set(func(s *fakeStore) { s.bad["away"] = errAway })
		expect := func(want map[string]int) {
			t.Helper()
			time.Sleep(5 * time.Second)
			if got := w.answered(); !maps.Equal(got, want) {
				t.Errorf("answers: %v, want %v", got, want)
			}
		}
		for _, tag := range []string{"good", "hangs", "away", "N"} {
			l.take(load(tag, 1, 0))
			time.Sleep(50 * time.Millisecond)
		}
		expect(map[string]int{"grant": 1, "tag": 2, "refused": 1})
		s.set(func(s *fakeStore) { s.down = errAway })
		for n := range 100 {
			l.take(load(fmt.Sprint(n), 1, 0))
		}
		// A probe has shown since that the store works, so the first two failures
		// may be their tags'.
		expect(map[string]int{"grant": 1, "tag": 4, "refused": 1, "store": 98})
	})
}

// TestProbesGoOn: a loader with a failing store gets enough events from the
// stream to probe, for the whole outage.
func TestProbesGoOn(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		s.set(func(s *fakeStore) { s.down = errAway })
		l.stream.Start(func(ctx context.Context) {
			for n := 0; ctx.Err() == nil; pause.For(ctx, lookAgain) {
				for range min(l.schedule.room(), 20) {
					n++
					l.submit(load(fmt.Sprint(n), 0, time.Hour), hold{time.Now().Add(4 * time.Second), new(message)})
				}
			}
		})
		time.Sleep(5 * time.Second)
		for range 20 {
			before := s.calls()
			time.Sleep(20 * time.Second)
			if calls := s.calls() - before; calls < 18 || calls > 28 {
				t.Errorf("%d calls in 20 seconds, want about one each %v", calls, probePause)
			}
		}
	})
}

// message is a message of the load stream.
type message struct {
	jetstream.Msg
	acks, naks int
}

func (m *message) Ack() error { m.acks++; return nil }
func (m *message) Nak() error { m.naks++; return nil }

func (s *schedule) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues) == 0
}

// TestEventsStayInTheStream: while the store fails, a loader pulls a single
// event, to probe with, if it has none. While more events wait than it serves
// soon, it pulls none. An event that it has held too long is no longer its own.
func TestEventsStayInTheStream(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		room := func(want int) {
			t.Helper()
			if got := l.schedule.room(); got != want {
				t.Errorf("room for %d, want %d", got, want)
			}
		}
		room(pullBatch)
		s.set(func(s *fakeStore) { s.delay = 2 * time.Second })
		l.take(load("a", 1, 0))
		l.take(load("b", 1, 0))
		var old, recent message
		l.submit(load("old", 0, time.Hour), hold{time.Now().Add(100 * time.Millisecond), &old})
		l.submit(load("new", 0, time.Hour), hold{time.Now().Add(time.Minute), &recent})
		time.Sleep(10 * time.Second)
		if n, o := s.callsFor("new"), s.callsFor("old"); o != 0 || old.acks != 0 || n != 1 || recent.acks != 1 {
			t.Errorf("%d and %d calls, %d and %d acks; want only the new one served and acked", o, n, old.acks, recent.acks)
		}
		for n := range enoughWaiting + 3 {
			l.take(load(fmt.Sprint(n), 1, 0))
		}
		room(0)
		s.set(func(s *fakeStore) { s.down = errAway })
		for !l.Figures().Outage.Now || !l.schedule.isEmpty() {
			time.Sleep(100 * time.Millisecond)
		}
		room(1)
		l.take(load("probe", 1, 0))
		l.take(load("next", 1, 0))
		room(1)
		l.take(load("last", 1, 0))
		l.take(load("more", 1, 0))
		room(0)
	})
}

// TestLoaderStopped: a load event that arrives after the loader has stopped is
// not served, as the store may be closed, and not acknowledged, so that another
// loader gets it. The same holds for events that wait for a failing store.
func TestLoaderStopped(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		s.set(func(s *fakeStore) { s.down = errAway })
		for n := range failuresOfOutage {
			l.take(load(fmt.Sprint(n), 1, 0))
		}
		time.Sleep(time.Second)
		s.set(func(s *fakeStore) { s.down = nil })
		before := s.calls()
		var waits, late message
		l.submit(load("a", 1, 0), hold{time.Now().Add(time.Minute), &waits})
		l.submit(load("b", 1, 0), hold{time.Now().Add(time.Minute), &waits})
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
		stopped := s.calls()
		l.submit(load("c", 1, 0), hold{time.Now().Add(time.Minute), &late})
		time.Sleep(time.Minute)
		if s.calls() != stopped || late.acks != 0 || late.naks != 1 {
			t.Errorf("%d calls after the stop; %d acks, %d naks", s.calls()-stopped, late.acks, late.naks)
		}
		if probes := stopped - before; probes > 1 || waits.acks != probes || waits.naks != 2-probes {
			t.Errorf("%d calls, %d acks and %d naks of what waited", probes, waits.acks, waits.naks)
		}
	})
}

// TestStopServesWhatWaits: Stop serves waiting jobs if the store works.
func TestStopServesWhatWaits(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		s.hang("hangs")
		l.take(load("hangs", 1, 0))
		for n := range 100 {
			l.take(load(fmt.Sprint(n), 1, 0))
		}
		began := time.Now()
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
		if n := len(s.served()); n != 100 || time.Since(began) > drainTime {
			t.Errorf("%d of 100 served within %v", n, time.Since(began))
		}
	})
}

// TestWaitingEventsShareACall: waiting events of many workers for a tag cost
// one call of the store, and each worker gets its own range. An event that
// arrives during the call waits for the next, unless it is the same load.
func TestWaitingEventsShareACall(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
		const workers = 20
		answers := make(chan loadmsg.Grant, workers+2)
		ask := func(seq int) {
			event := load("hot", 1, 0)
			event.Instance, event.Seq = fmt.Sprint("w", seq), uint64(seq)
			w.mu.Lock()
			w.answers[event.Seq] = answers
			w.mu.Unlock()
			l.take(event)
		}
		ask(0) // the others arrive while it is served
		time.Sleep(s.delay / 2)
		ask(0) // again, which reserves nothing more
		for n := range workers {
			ask(1 + n)
		}
		time.Sleep(s.delay)
		ask(1 + workers)
		time.Sleep(2 * s.delay)
		if n := s.calls(); n != 3 || len(answers) != workers+2 {
			t.Fatalf("%d calls of the store and %d grants, want 3 for %d workers", n, len(answers), workers+2)
		}
		first := int64(1)
		for n := range workers + 2 {
			grant := <-answers
			if n == workers+1 && grant.Seq != workers+1 {
				t.Errorf("the last range is of load %d", grant.Seq)
			}
			if grant.First != first || grant.End != first+10 {
				t.Errorf("[%d, %d) was granted, want 10 IDs from %d on", grant.First, grant.End, first)
			}
			first = grant.End
		}
	})
}

// TestLastIDs: loads of a trend tag that together want more than is left get
// what is left. Strict loads are served singly, and get all they want or
// nothing.
func TestLastIDs(t *testing.T) {
	for order, want := range map[store.Order][]int64{store.Trend: {10, 10, 5}, store.Strict: {10, 10}} {
		t.Run(string(order), func(t *testing.T) {
			testLoader(t, 8, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
				s.left, s.entries = 25, order
				answers := make(chan loadmsg.Grant, 4)
				var jobs []job
				for n := range 4 {
					event := load("order", 10, 0)
					event.Seq = uint64(n + 1)
					w.answers[event.Seq] = answers
					jobs = append(jobs, job{event: event})
				}
				if left, err := l.load(t.Context(), "order", jobs); len(left) > 0 {
					t.Errorf("%d are left: %v", len(left), err)
				}
				close(answers)
				var got []int64
				refused := 0
				for grant := range answers {
					if grant.Refused == messages.CodeExhausted {
						refused++
					} else {
						got = append(got, grant.End-grant.First)
					}
				}
				if !slices.Equal(got, want) || refused != 4-len(want) {
					t.Errorf("granted %v and refused %d, want %v of 4", got, refused, want)
				}
			})
		})
	}
}

// boundStore reserves 15 IDs at most, as a row does near a bound that only the
// database has.
type boundStore struct{ *fakeStore }

func (s boundStore) Reserve(_ context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	first := max(1, s.next[tag])
	granted, err := store.Segment{First: first, End: min(first+15, 41)}.Divide(store.Trend, 10, wants)
	if err == nil {
		s.next[tag] = granted.End()
	}
	return granted, err
}

// TestPartsThatAreMissing: a load without a part of a reservation is refused
// only once the store has no IDs left.
func TestPartsThatAreMissing(t *testing.T) {
	w := newFakeWorker(Config{
		Store: boundStore{newFakeStore()}, Prefix: "ids", MaxStep: 100, Timeout: DefaultTimeout, Log: zap.NewNop(),
	}, &fakeTemplates{})
	var jobs []job
	for n := range uint64(7) {
		jobs = append(jobs, job{event: numbered(n+1, "order", 10, 0)})
	}
	left, err := w.l.load(t.Context(), "order", jobs)
	if got := w.answered(); len(left) > 0 || got["grant"] != 5 || got["refused"] != 2 {
		t.Errorf("answers: %v, left %v, %v; want all 40 IDs granted to five loads", got, left, err)
	}
}

// recreatedStore has a tag that was made again with another order and step.
type recreatedStore struct{ *fakeStore }

func (s recreatedStore) Reserve(context.Context, string, []store.Want) (store.Reservation, error) {
	return store.Reservation{Order: store.Strict, Step: 7, Parts: []store.Segment{{First: 1, End: 2}, {First: 2, End: 5}}}, nil
}

// TestOrderIsThatOfTheGrant: a grant has the order and the step of the entry
// that it was written with, and the part that the store reserved for it,
// whatever its worker takes the tag for.
func TestOrderIsThatOfTheGrant(t *testing.T) {
	w := newFakeWorker(Config{
		Store: recreatedStore{newFakeStore()}, Prefix: "ids", MaxStep: 10, Timeout: DefaultTimeout, Log: zap.NewNop(),
	}, &fakeTemplates{})
	answers := make(chan loadmsg.Grant, 2)
	w.answers[1] = answers
	var jobs []job
	for n := range 2 {
		event := load("order", 1, 0)
		event.Instance = fmt.Sprint("w", n)
		jobs = append(jobs, job{event: event})
	}
	if _, err := w.l.load(t.Context(), "order", jobs); err != nil {
		t.Fatal(err)
	}
	for _, part := range []store.Segment{{First: 1, End: 2}, {First: 2, End: 5}} {
		if g := <-answers; g.First != part.First || g.End != part.End || g.Order != store.Strict || g.Step != 7 {
			t.Errorf("%+v was granted, want %v of a strict tag with a step of 7", g, part)
		}
	}
}

// TestLineIsThatOfTheGrant: a grant has the floor under which its range was
// reserved. The loader may have taken over another decision since.
func TestLineIsThatOfTheGrant(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
		answers := make(chan loadmsg.Grant, 2)
		w.answers[1] = answers
		l.take(load("order", 1, 0))
		time.Sleep(s.delay / 2)
		s.set(func(s *fakeStore) { s.floor = 1000 })
		if g := <-answers; g.Floor != 1 || g.Sequence != 1 {
			t.Errorf("a range that was reserved before the decision: %+v", g)
		}
		synctest.Wait() // until the load has ended; a repetition would get no grant
		l.take(load("order", 1, 0))
		if g := <-answers; g.Floor != 1000 || g.Sequence != 2 {
			t.Errorf("a range of after it: %+v", g)
		}
	})
}

// TestSecondOutage: an outage is detected even if all requested tags failed in
// the previous outage.
func TestSecondOutage(t *testing.T) {
	testLoader(t, 32, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
		for outages := int64(1); outages <= 6; outages++ {
			s.set(func(s *fakeStore) { s.down = errAway })
			var all sync.WaitGroup
			for _, tag := range names("", 20) {
				all.Go(func() { w.demand(tag, time.Hour) })
			}
			time.Sleep(20 * time.Second)
			if outage := l.Figures().Outage; !outage.Now || outage.Times != outages {
				t.Errorf("%+v, want outage %d", outage, outages)
			}
			before := len(s.served())
			s.set(func(s *fakeStore) { s.down = nil })
			for len(s.served()) == before {
				time.Sleep(time.Millisecond)
			}
			if outages == 1 {
				// After a success.
				s.set(func(s *fakeStore) { s.down = errAway })
				time.Sleep(5 * time.Second)
				if !l.Figures().Outage.Now {
					t.Error("the store is away and counts as up")
				}
				outages++
				s.set(func(s *fakeStore) { s.down = nil })
			}
			all.Wait()
		}
	})
}

// TestSlotsAreBounded: however many tags wait, the store gets as many
// concurrent calls as there are slots.
func TestSlotsAreBounded(t *testing.T) {
	const slots, rounds = 8, 10
	testLoader(t, slots, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		for n := range slots * rounds {
			l.take(load(fmt.Sprint(n), 1, 0))
		}
		time.Sleep(s.delay / 2)
		for round := range rounds {
			if n, want := s.calls(), slots*(round+1); n != want {
				t.Errorf("%d calls after %d rounds, want %d", n, round, want)
			}
			time.Sleep(s.delay)
		}
	})
}

// TestOrderOfNeed: tags are served in order of need, in any order of arrival:
// those with parked requests, then those with the shortest runway. A tag that
// becomes urgent moves to the front.
func TestOrderOfNeed(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		l.take(load("x", 1, 0)) // these have the slots
		l.take(load("y", 1, 0))
		for _, e := range []loadmsg.Event{
			load("idle", 0, 365*24*time.Hour), load("hour", 0, time.Hour), load("later", 0, time.Hour), load("minute", 0, 90*time.Second), load("parked", 3, 0),
		} {
			l.take(e)
			time.Sleep(time.Microsecond)
		}
		urgent := load("later", 1, 0)
		urgent.Seq = 2
		l.take(urgent)
		time.Sleep(time.Second)
		// Two at a time, so each pair may arrive in either order.
		got := s.served()
		for i := 0; i+1 < len(got); i += 2 {
			slices.Sort(got[i : i+2])
		}
		if got, want := fmt.Sprint(got), "[x y later parked hour minute idle]"; got != want {
			t.Errorf("served %s, want %s", got, want)
		}
	})
}

// TestMadeUpNamesDelayNobody: despite any number of made-up names, known tags
// have every other slot.
func TestMadeUpNamesDelayNobody(t *testing.T) {
	for _, slots := range []int{2, 8} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			testLoader(t, slots, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
				for n := range 5000 {
					evil := load(fmt.Sprint("M.", n), 1, 0)
					evil.Unknown = true
					l.take(evil)
				}
				time.Sleep(time.Millisecond)
				const each = 8
				for n := range each {
					l.take(load(fmt.Sprint("known", n), 1, 0))
				}
				time.Sleep((2*each/time.Duration(slots) + 4) * s.delay)
				for n := range each {
					if tag := fmt.Sprint("known", n); s.callsFor(tag) == 0 {
						t.Errorf("%s is not served, after %d calls", tag, s.calls())
					}
				}
			})
		})
	}
}

// TestWhatIsWrongWithATag: a fault of a tag, and not of the store, is a refusal
// for its requests; all others are served.
func TestWhatIsWrongWithATag(t *testing.T) {
	for _, wrong := range []error{store.ErrBadTag, store.ErrOrder, store.ErrCorrupt, fmt.Errorf("%w: %w", store.ErrBadTag, store.ErrSetup)} {
		testLoader(t, 8, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
			s.refusal = wrong
			for n := range 100 {
				l.take(load(fmt.Sprint("M.", n), 1, 0))
			}
			time.Sleep(time.Second)
			if got, want := w.answered(), map[string]int{"refused": 100}; !maps.Equal(got, want) {
				t.Errorf("%v: answers %v, want %v", wrong, got, want)
			}
			if outage := l.Figures().Outage; outage.Times > 0 {
				t.Errorf("%v of some tags: %+v", wrong, outage)
			}
		})
	}
}
