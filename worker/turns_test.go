package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
)

// fakeStore takes some time for each call, and fails or hangs as it is told.
type fakeStore struct {
	lookupStore // there are no templates
	delay       time.Duration

	mu     sync.Mutex
	down   error            // of all tags
	bad    map[string]error // of some; errHangs: no answer
	called map[string]int
	order  []string
}

var errHangs, errAway = errors.New("hangs"), errors.New("away")

func (s *fakeStore) Known(string) bool { return true }

func (s *fakeStore) Lookup(_ context.Context, tag string) (store.Tag, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Tag{Name: tag, Step: 10, Next: 1, Order: store.Trend}, nil
}

func (s *fakeStore) Reserve(ctx context.Context, tag string, n int64) (store.Grant, error) {
	s.mu.Lock()
	s.called[tag]++
	err := s.down
	if err == nil {
		err = s.bad[tag]
	}
	if err == nil {
		s.order = append(s.order, tag)
	}
	s.mu.Unlock()
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return store.Grant{}, ctx.Err()
	}
	time.Sleep(s.delay)
	return store.Grant{Segment: store.Segment{First: 1, End: 1 + n}, Order: store.Trend}, err
}

func (s *fakeStore) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *fakeStore) calls() (all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.called {
		all += n
	}
	return all
}

// served is how many tags were granted a segment.
func (s *fakeStore) served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// testLoader runs f in virtual time with a loader that has that many turns.
func testLoader(t *testing.T, turns int, f func(t *testing.T, l *loader, s *fakeStore)) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{delay: 10 * time.Millisecond, bad: make(map[string]error), called: make(map[string]int)}
		l := newLoader(Config{Reservations: turns, Log: zap.NewNop()}.WithDefaults(), newLookups(s, noTemplates))
		f(t, l, s)
		l.stop()
	})
}

func load(tag string, want int64, runway time.Duration) loads.Event {
	return loads.Event{Instance: "a", Tag: tag, Step: 10, Want: want, Seq: 1, Runway: max(1, runway.Milliseconds())}
}

// TestOutageOfAllTags: 10,000 tags that wait cost a store that is down less than two calls a
// second, whether it hangs or answers with an error; and when it is back each costs one call,
// all of them as fast as there are turns.
func TestOutageOfAllTags(t *testing.T) {
	for _, down := range []error{errAway, errHangs} {
		t.Run(down.Error(), func(t *testing.T) {
			testLoader(t, 64, func(t *testing.T, l *loader, s *fakeStore) {
				const tags, outage = 10_000, 20 * time.Second
				s.set(down)
				for n := range tags {
					l.loadDirectly(load(fmt.Sprint(n), 1, 0))
				}
				time.Sleep(4 * time.Second) // and it is known that the store fails
				before := s.calls()
				time.Sleep(outage)
				if calls := s.calls() - before; calls > 2*int(outage.Seconds()) || calls < 10 {
					t.Errorf("%d calls in an outage of %v, want at most two a second, and some", calls, outage)
				}
				s.set(nil)
				before = s.calls()
				time.Sleep(probePause + storeTimeout + tags/64*s.delay*13/10)
				if calls := s.calls() - before; s.served() != tags || calls > tags+tags/100 {
					t.Errorf("%d of %d tags are served after the outage, with %d calls", s.served(), tags, calls)
				}
			})
		})
	}
}

// TestTagThatAlwaysFails: neither does it make the store fail for others, nor do they wait for
// it, whether it hangs or its entry cannot be read, and whether it was there first or not.
func TestTagThatAlwaysFails(t *testing.T) {
	for _, bad := range []error{errAway, errHangs, fmt.Errorf("%w: no number", store.ErrCorrupt)} {
		t.Run(bad.Error(), func(t *testing.T) {
			testLoader(t, 2, func(t *testing.T, l *loader, s *fakeStore) {
				s.bad["bad"] = bad
				for n := range 100 {
					for range 30 { // alone, and for as long as calls hang
						l.loadDirectly(load("bad", 1, 0))
						time.Sleep(time.Second)
					}
					l.loadDirectly(load(fmt.Sprint(n), 1, 0))
					time.Sleep(probePause + 2*s.delay)
					if s.served() != n+1 {
						t.Fatalf("the store was not called in time for another tag, number %d", n)
					}
				}
				most := int64(2) // while nothing else is known of the store, and when it may be the next outage
				if errors.Is(bad, store.ErrCorrupt) {
					most = 0 // the store has answered
				}
				if _, outages := l.health.figures(); outages > most {
					t.Errorf("%d outages, want at most %d", outages, most)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if calls := s.called["bad"]; calls > 2*100*31 {
					t.Errorf("%d calls for the bad tag", calls)
				}
			})
		})
	}
}

// TestProbesGoOn: a loader whose store fails gets what it needs to probe from the stream, for as
// long as that takes, although events become too old while they wait.
func TestProbesGoOn(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		s.set(errAway)
		ctx, cancel := context.WithCancel(t.Context())
		var stream sync.WaitGroup
		stream.Go(func() {
			for n := 0; ; {
				room := l.turns.awaitRoom(ctx)
				if room == 0 {
					return
				}
				for range min(room, 20) {
					n++
					l.submit(job{load(fmt.Sprint(n), 0, time.Hour), new(message), time.Now().Add(4 * time.Second)})
				}
			}
		})
		for range 20 {
			before := s.calls()
			time.Sleep(20 * time.Second)
			if calls := s.calls() - before; calls < 20 {
				t.Errorf("%d calls in 20 seconds, want about one each %v", calls, probePause)
			}
		}
		cancel()
		stream.Wait()
	})
}

// TestLoadThatIsAskedForAgainStays: a load is served when the store is back, however long that
// takes, if its worker asks for it again, be it while a call for it hangs.
func TestLoadThatIsAskedForAgainStays(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		s.set(errHangs)
		ask := func() { l.submit(job{load("order", 1, 0), new(message), time.Now().Add(4 * time.Second)}) }
		for ask(); s.calls() < 7; time.Sleep(time.Second) { // for some 20 s
		}
		ask() // while the seventh call hangs
		time.Sleep(loadEventAge - 10*time.Second)
		s.set(nil)
		time.Sleep(storeTimeout + retryPauseMax)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.order) != 1 {
			t.Errorf("served %v, want order once", s.order)
		}
	})
}

// TestLoadIsReservedOnce: to ask again while a load is being served reserves nothing more.
func TestLoadIsReservedOnce(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		for range 3 {
			l.loadDirectly(load("order", 1, 0))
			time.Sleep(s.delay / 4)
		}
		time.Sleep(10 * s.delay)
		if n := s.calls(); n != 1 {
			t.Errorf("%d calls of the store, want 1", n)
		}
	})
}

// TestWaitingEventsShareAWrite: events of many workers for one tag that wait together cost one
// call of the store, and each worker gets a range of its own.
func TestWaitingEventsShareAWrite(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		const workers = 20
		var mu sync.Mutex
		got := make(map[string]store.Segment)
		l.publish = func(_ string, data []byte) error {
			grant, err := loads.DecodeGrant(data)
			mu.Lock()
			defer mu.Unlock()
			got[grant.Instance] = store.Segment{First: grant.First, End: grant.End}
			return err
		}
		l.loadDirectly(load("hot", 1, 0)) // the others come while it is served
		time.Sleep(s.delay / 2)
		for n := range workers {
			event := load("hot", 1, 0)
			event.Instance = fmt.Sprint("w", n)
			l.loadDirectly(event)
		}
		time.Sleep(2 * s.delay)
		mu.Lock()
		defer mu.Unlock()
		if n := s.calls(); n != 2 || len(got) != 1+workers {
			t.Errorf("%d calls of the store and %d grants, want 2 for 1 and %d workers", n, len(got), workers)
		}
		delete(got, "a") // the fake store gives the same range again
		first := int64(1)
		for _, segment := range slices.SortedFunc(maps.Values(got), func(a, b store.Segment) int { return cmp.Compare(a.First, b.First) }) {
			if segment.First != first || segment.Len() != 10 {
				t.Errorf("%v was granted, want 10 IDs from %d on", segment, first)
			}
			first = segment.End
		}
	})
}

// TestOneTagThatFailsIsNotTheStore: while a store counts as failing, and only one tag is there to
// probe it with, the loader takes another one from the stream.
func TestOneTagThatFailsIsNotTheStore(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		s.bad["bad"] = errAway
		l.loadDirectly(load("bad", 1, 0))
		time.Sleep(2 * time.Second)
		if room := l.turns.room(); l.health.isUp() || room != 1 {
			t.Fatalf("up: %v, room for %d; want a store that fails, and room for one event", l.health.isUp(), room)
		}
		l.loadDirectly(load("good", 1, 0))
		time.Sleep(2 * time.Second)
		if s.served() != 1 {
			t.Errorf("%d served; want that the good tag was", s.served())
		}
	})
}

// TestSecondOutage: an outage is noticed although all that ask have failed in the one before.
func TestSecondOutage(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		s.set(errAway)
		for n := range 20 {
			l.loadDirectly(load(fmt.Sprint(n), 1, 0))
		}
		time.Sleep(20 * time.Second) // all have failed
		s.set(nil)
		for s.served() == 0 {
			time.Sleep(time.Millisecond)
		}
		s.set(errAway)
		time.Sleep(5 * time.Second)
		if l.health.isUp() {
			t.Error("the store is away and counts as up")
		}
	})
}

// TestReservationsAreBounded: however many tags wait, the store gets as many calls at a time as there are turns.
func TestReservationsAreBounded(t *testing.T) {
	const turns, rounds = 8, 10
	testLoader(t, turns, func(t *testing.T, l *loader, s *fakeStore) {
		for n := range turns * rounds {
			l.loadDirectly(load(fmt.Sprint(n), 1, 0))
		}
		time.Sleep(s.delay / 2)
		for round := range rounds {
			if n, want := s.calls(), turns*(round+1); n != want {
				t.Errorf("%d calls after %d rounds, want %d", n, round, want)
			}
			time.Sleep(s.delay)
		}
	})
}

// TestManyTagsThatHang: they leave most of the turns to the others.
func TestManyTagsThatHang(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		served := 0
		for second := range 120 {
			for n := range min(second/4, 20) {
				s.mu.Lock()
				s.bad[fmt.Sprint("bad", n)] = errHangs
				s.mu.Unlock()
				l.loadDirectly(load(fmt.Sprint("bad", n), 1, 0))
			}
			for n := range 50 {
				l.loadDirectly(load(fmt.Sprintf("good%d.%d", second, n), 0, time.Minute))
			}
			time.Sleep(time.Second)
			if served += 50; s.served() != served {
				t.Fatalf("second %d: %d of %d good tags are served", second, s.served(), served)
			}
		}
		if _, outages := l.health.figures(); outages > 0 {
			t.Errorf("%d outages, want none", outages)
		}
	})
}

// TestOrderOfNeed: after an outage the tags come in the order in which they need it, whenever
// they asked: those with parked requests, then those with the shortest runway. One that gets
// urgent moves to the front.
func TestOrderOfNeed(t *testing.T) {
	testLoader(t, 1, func(t *testing.T, l *loader, s *fakeStore) {
		s.set(errAway)
		l.loadDirectly(load("probe", 1, 0))
		time.Sleep(time.Second)
		for _, e := range []loads.Event{
			load("idle", 0, 365*24*time.Hour), load("hour", 0, time.Hour), load("later", 0, time.Hour), load("minute", 0, 90*time.Second), load("parked", 3, 0),
		} {
			l.loadDirectly(e)
		}
		urgent := load("later", 1, 0)
		urgent.Seq = 2
		l.loadDirectly(urgent)
		s.set(nil)
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if got, want := fmt.Sprint(s.order), "[parked later probe minute hour idle]"; got != want {
			t.Errorf("served %s, want %s", got, want)
		}
	})
}

// TestFlappingStore: what fails and works again in turn is called no more often than it is asked
// for, and all is served in the end.
func TestFlappingStore(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *loader, s *fakeStore) {
		const tags = 2000
		for n := range tags {
			l.loadDirectly(load(fmt.Sprint(n), 1, 0))
		}
		for range 20 {
			s.set(errAway)
			time.Sleep(900 * time.Millisecond)
			s.set(nil)
			time.Sleep(900 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if s.served() != tags || s.calls() > tags+20*(8+3) {
			t.Errorf("%d of %d tags served with %d calls", s.served(), tags, s.calls())
		}
	})
}

// TestEventsStayInTheStream: while the store fails, a loader asks for one event, to probe with,
// if it has none; while more wait than it serves soon, for none; and an event that it has had
// for too long is not its own any more.
func TestEventsStayInTheStream(t *testing.T) {
	testLoader(t, 1, func(t *testing.T, l *loader, s *fakeStore) {
		room := func(want int) {
			t.Helper()
			if got := l.turns.room(); got != want {
				t.Errorf("room for %d, want %d", got, want)
			}
		}
		room(pullBatch)
		for range failuresOfAnOutage {
			l.health.recordFailure("order", time.Now(), errAway)
		}
		room(1)
		s.set(errAway)
		var old, recent message
		l.submit(job{load("probe", 1, 0), nil, time.Now().Add(time.Minute)})
		l.submit(job{load("old", 0, time.Hour), &old, time.Now().Add(time.Second)})
		l.submit(job{load("new", 0, time.Hour), &recent, time.Now().Add(time.Minute)})
		room(0)
		time.Sleep(time.Second)
		l.health.recordSuccess()
		l.turns.recover()
		s.set(nil)
		l.dispatch()
		time.Sleep(time.Second)
		s.mu.Lock()
		if s.called["old"] != 0 || old.acks != 0 || s.called["new"] != 1 || recent.acks != 1 {
			t.Errorf("called %v, %d and %d acks; want only the new one served and acked", s.called, old.acks, recent.acks)
		}
		s.mu.Unlock()
		for n := range enoughWaiting + 2 {
			l.loadDirectly(load(fmt.Sprint(n), 1, 0))
		}
		room(0)
	})
}

func noTemplates(context.Context) (templates.List, error) { return nil, nil }

// newTagStore knows no tag, and creates each that is asked for.
type newTagStore struct {
	*fakeStore
	refused error
}

func (*newTagStore) Known(tag string) bool { return tag[0] == '0' }

func (s *newTagStore) Lookup(ctx context.Context, tag string) (store.Tag, error) {
	if s.Known(tag) {
		return s.fakeStore.Lookup(ctx, tag)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Tag{}, cmp.Or(s.down, store.ErrNoTag)
}

func (s *newTagStore) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Grant, error) {
	if s.refused != nil {
		return store.Grant{}, s.refused
	}
	return s.Reserve(ctx, tag.Name, n)
}

func testNewTags(t *testing.T, turns int, f func(t *testing.T, l *loader, s *newTagStore)) {
	synctest.Test(t, func(t *testing.T) {
		s := &newTagStore{fakeStore: &fakeStore{delay: 10 * time.Millisecond, called: make(map[string]int)}}
		l := newLoader(Config{Reservations: turns, Log: zap.NewNop()}.WithDefaults(), newLookups(s, templatesOf(templates.Template{Pattern: ">", Step: 10})))
		f(t, l, s)
		l.stop()
	})
}

// TestMadeUpNamesHoldNobodyUp: however many names somebody makes up, tags that the loader
// knows have every other turn.
func TestMadeUpNamesHoldNobodyUp(t *testing.T) {
	for _, turns := range []int{1, 8} {
		t.Run(fmt.Sprint(turns), func(t *testing.T) {
			testNewTags(t, turns, func(t *testing.T, l *loader, s *newTagStore) {
				for n := range 5000 {
					evil := load(fmt.Sprint("evil", n), 1, 0)
					evil.Unknown = true
					l.loadDirectly(evil)
				}
				time.Sleep(time.Millisecond)
				const each = 8
				for n := range each {
					l.loadDirectly(load(fmt.Sprint("0known", n), 1, 0))
				}
				time.Sleep((2*each/time.Duration(turns) + 4) * s.delay)
				s.mu.Lock()
				defer s.mu.Unlock()
				for n := range each {
					if tag := fmt.Sprint("0known", n); s.called[tag] == 0 {
						t.Errorf("%s is not served, after %d calls", tag, len(s.order))
					}
				}
				l.turns.close()
			})
		})
	}
}

// TestWhatIsWrongWithATag, and not with the store, is a refusal for its requests; all others
// are served.
func TestWhatIsWrongWithATag(t *testing.T) {
	for _, wrong := range []error{store.ErrBadTag, store.ErrOrder, store.ErrCorrupt, fmt.Errorf("%w: %w", store.ErrBadTag, store.ErrSetup)} {
		testNewTags(t, 8, func(t *testing.T, l *loader, s *newTagStore) {
			s.refused = wrong
			for n := range 100 {
				if left := l.load(&queue{tag: fmt.Sprint("evil", n)}, []job{{event: load(fmt.Sprint("evil", n), 1, 0)}}); len(left) > 0 {
					t.Fatalf("%v: it is tried again", wrong)
				}
			}
			if !l.health.isUp() {
				t.Errorf("%v of some tags: the store is taken for one that fails", wrong)
			}
		})
	}
}

// TestRefusalsDoNotHideARecovery: while names are requested that a full template refuses, a
// loader finds out that its store works again, and serves the tags that failed.
func TestRefusalsDoNotHideARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &newTagStore{fakeStore: &fakeStore{delay: 10 * time.Millisecond, called: make(map[string]int)}}
		from := newLookups(s, templatesOf(templates.Template{Pattern: ">", Step: 10, MaxTags: 1}))
		from.follows, from.counted = true, true
		from.names["only"] = struct{}{}
		l := newLoader(Config{Reservations: 64, Log: zap.NewNop()}.WithDefaults(), from)
		request := func(n int) {
			for range n {
				for _, tag := range []string{"0a", "0b", "0c"} {
					l.loadDirectly(load(tag, 1, 0))
				}
				e := load(fmt.Sprint("new", time.Now()), 1, 0)
				e.Unknown = true
				l.loadDirectly(e)
				time.Sleep(500 * time.Millisecond)
			}
		}
		s.set(errAway)
		request(10)
		if l.health.isUp() {
			t.Fatal("the store is not taken for one that fails")
		}
		s.set(nil)
		request(20)
		if s.served() < 3 || !l.health.isUp() {
			t.Errorf("%d of 3 tags served, up: %v, ten seconds after the store is back", s.served(), l.health.isUp())
		}
		l.stop()
	})
}
