package loader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/loadmsg"
)

// listen returns a function that returns the answers so far to the loads with
// these numbers.
func (w *fakeWorker) listen(seqs ...uint64) (heard func() []loadmsg.Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := make(chan loadmsg.Grant, 10_000)
	for _, seq := range seqs {
		w.answers[seq] = answers
	}
	return func() (all []loadmsg.Grant) {
		for len(answers) > 0 {
			all = append(all, <-answers)
		}
		return all
	}
}

// numbered is load with another number.
func numbered(seq uint64, tag string, want int64, runway time.Duration) loadmsg.Event {
	e := load(tag, want, runway)
	e.Seq = seq
	return e
}

// submitStored submits an event of the load stream.
func (w *fakeWorker) submitStored(e loadmsg.Event, msg *message) {
	w.l.submit(e, hold{time.Now().Add(4 * time.Second), msg})
}

// TestWaitingEventsAreBounded: when very many events wait, plain events of
// further tags are dropped. Tags that wait already still take theirs, and when
// there is room again, so do others.
func TestWaitingEventsAreBounded(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
		l.take(load("x", 1, 0)) // these have the slots
		l.take(load("y", 1, 0))
		for n := range 65_536 {
			l.take(load(fmt.Sprint(n), 0, time.Hour))
		}
		l.take(load("late", 1, 0))
		heard := w.listen(2)
		more := numbered(2, "7", 1, 0)
		more.Instance = "b"
		l.take(more)
		time.Sleep(time.Second)
		if n := s.callsFor("late"); n != 0 {
			t.Errorf("%d calls for a tag whose event came when too many were waiting", n)
		}
		if n := len(heard()); n != 1 {
			t.Errorf("%d answers to a tag that waited already, want 1", n)
		}
		l.take(load("late", 1, 0))
		time.Sleep(time.Second)
		if n := s.callsFor("late"); n != 1 {
			t.Errorf("%d calls for a tag whose event came when there was room again, want 1", n)
		}
	})
}

// TestPlainEventsExpire: a plain event that has waited for 30 s is not served.
// Its requests have their answer by then.
func TestPlainEventsExpire(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		s.set(func(s *fakeStore) { s.delay = 100 * time.Millisecond })
		began := time.Now()
		for n := range 1000 { // 50 seconds of work
			l.take(load(fmt.Sprint(n), 1, 0))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		last := s.at[len(s.at)-1].Sub(began)
		if last >= 30*time.Second {
			t.Errorf("an event was served after %v", last)
		}
		if last < 29*time.Second {
			t.Errorf("no event was served after %v", last)
		}
	})
}

// TestLaterEventKeepsTheMessage: if a worker sends a later event while one of
// the stream waits, the later load is served, and the stream's message is acked
// once. It does not matter which event comes first.
func TestLaterEventKeepsTheMessage(t *testing.T) {
	stored, plain := numbered(1, "order", 0, time.Hour), numbered(2, "order", 3, 0)
	for what, send := range map[string]func(w *fakeWorker, msg *message){
		"stream, plain": func(w *fakeWorker, msg *message) { w.submitStored(stored, msg); w.l.take(plain) },
		"plain, stream": func(w *fakeWorker, msg *message) { w.l.take(plain); w.submitStored(stored, msg) },
	} {
		t.Run(what, func(t *testing.T) {
			testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker) {
				heard := w.listen(1, 2)
				l.take(numbered(3, "x", 1, 0)) // these have the slots
				l.take(numbered(3, "y", 1, 0))
				var msg message
				send(w, &msg)
				time.Sleep(time.Second)
				synctest.Wait()
				if msg.acks != 1 || msg.naks != 0 {
					t.Errorf("the stream's message was acked %d times and returned %d times; want one ack", msg.acks, msg.naks)
				}
				if all := heard(); len(all) != 1 || all[0].Seq != 2 || s.callsFor("order") != 1 {
					t.Errorf("%d calls of the store, answers %+v; want one call, and an answer to the later load alone", s.callsFor("order"), all)
				}
			})
		})
	}
}

// TestKnownTagsAreProbedFirst: while the store fails, it is probed with a known
// tag, if one waits. Unknown tags may cost only a look-up, which proves nothing
// about writes.
func TestKnownTagsAreProbedFirst(t *testing.T) {
	testLoader(t, 2, func(t *testing.T, l *Loader, s *fakeStore, _ *fakeWorker) {
		s.set(func(s *fakeStore) { s.down = errAway })
		for _, tag := range names("down", failuresOfOutage) {
			l.take(load(tag, 1, 0))
		}
		time.Sleep(time.Second)
		if !l.Figures().Outage.Now {
			t.Fatal("the store is away and counts as up")
		}
		for round := range 10 {
			time.Sleep(probePause)
			l.take(load(fmt.Sprint("probe", round), 1, 0)) // the others wait for the next
			for n := range 3 {
				unknown := load(fmt.Sprint("M.", round, "-", n), 1, 0)
				unknown.Unknown = true
				l.take(unknown)
			}
			known := fmt.Sprint("known", round)
			l.take(load(known, 0, time.Hour))
			time.Sleep(probePause + time.Millisecond)
			if n := s.callsFor(known); n != 1 {
				t.Errorf("round %d: %d calls for the known tag, want that it is the probe", round, n)
			}
		}
	})
}

// TestTooManyMadeUpNames: names that do not exist are refused as missing, or as
// too many. In the second case, the worker has to pause for 50 ms.
func TestTooManyMadeUpNames(t *testing.T) {
	testLoader(t, 8, func(t *testing.T, l *Loader, _ *fakeStore, w *fakeWorker) {
		heard := w.listen(1)
		const names = 3000
		for n := range names {
			e := load(fmt.Sprint("N", n), 1, 0)
			e.Unknown = true
			l.take(e)
		}
		time.Sleep(time.Second)
		pauses := make(map[messages.Code]map[int64]int)
		for _, grant := range heard() {
			if pauses[grant.Refused] == nil {
				pauses[grant.Refused] = make(map[int64]int)
			}
			pauses[grant.Refused][grant.Pause]++
		}
		missing, busy := pauses[messages.CodeNoTag][0], pauses[messages.CodeBusy][50]
		if missing < missesBurst || busy == 0 || missing+busy != names {
			t.Errorf("answers by code and pause: %v; want %d or more that are missing, and a pause of 50 ms in the others", pauses, missesBurst)
		}
	})
}

// slowCount is a store that takes some time to count tags.
type slowCount struct {
	*fakeStore
	after time.Duration
}

func (s slowCount) Count(ctx context.Context, patterns ...string) (int64, error) {
	select {
	case <-time.After(s.after):
		return s.fakeStore.Count(ctx, patterns...)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// testLimited runs f in virtual time with a loader whose template for M.* has a
// limit.
func testLimited(t *testing.T, of store.Reserver, f func(t *testing.T, w *fakeWorker)) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorker(Config{
			Store: of, StoreName: "fake", Prefix: "ids", Reservations: 8, MaxStep: 1 << 30, Timeout: DefaultTimeout, Log: zap.NewNop(),
		}, &fakeTemplates{list: templates.List{{Pattern: "M.*", Step: 10, MaxTags: 1}}})
		w.l.run()
		f(t, w)
		if err := w.l.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestFirstTagWaitsForTheCount: the first tag of a template with a limit waits
// for the count of the existing tags as long as a call may take. Then the worker
// has to try again.
func TestFirstTagWaitsForTheCount(t *testing.T) {
	for _, c := range []struct {
		counted, answered time.Duration
		want              string
	}{
		{99 * time.Millisecond, 109 * time.Millisecond, "grant"}, // with the call
		{time.Minute, DefaultTimeout, "tag"},
	} {
		testLimited(t, slowCount{newFakeStore(), c.counted}, func(t *testing.T, w *fakeWorker) {
			w.l.take(load("M.1", 1, 0))
			time.Sleep(c.answered - time.Millisecond)
			if n := w.answered(); len(n) > 0 {
				t.Errorf("counted after %v: answered early: %v", c.counted, n)
			}
			time.Sleep(2 * time.Millisecond)
			if n := w.answered(); n[c.want] != 1 || len(n) != 1 {
				t.Errorf("counted after %v: answers %v; want one, %q", c.counted, n, c.want)
			}
		})
	}
}

// race is a store in which another loader makes each new tag first, with the
// IDs up to 10.
type race struct{ *fakeStore }

func (s race) ReserveFirst(_ context.Context, tag store.Tag, _ []store.Want) (store.Reservation, error) {
	s.set(func(s *fakeStore) { s.next[tag.Name] = 11 })
	return store.Reservation{}, store.ErrTagExists
}

// TestAnotherLoaderMakesTheTag: a loader that is not the first to make a tag
// reserves in it. The tag counts once for its template.
func TestAnotherLoaderMakesTheTag(t *testing.T) {
	testLimited(t, race{newFakeStore()}, func(t *testing.T, w *fakeWorker) {
		heard := w.listen(1)
		w.l.take(load("M.1", 1, 0))
		time.Sleep(time.Second)
		if all := heard(); len(all) != 1 || all[0].First != 11 || all[0].End != 21 {
			t.Errorf("answers %+v, want the ten IDs after those of the other loader", all)
		}
		w.l.take(load("M.2", 1, 0))
		time.Sleep(time.Second)
		if all := heard(); len(all) != 1 || all[0].Refused != messages.CodeBusy || all[0].FullTemplate != "M.*" {
			t.Errorf("answers %+v to a second tag, want that the template is full", all)
		}
	})
}

// frozen is the store of a loader that receives an event and then hangs, until
// it is released.
type frozen struct {
	*fakeStore
	received, released chan struct{}
	once               *sync.Once
}

func (s frozen) Known(tag string) bool {
	s.once.Do(func() { close(s.received) })
	<-s.released
	return s.fakeStore.Known(tag)
}

// TestEventsOfADeadLoaderAreServed: a loader dies with an event of the stream in
// hand, whose call has not begun. When the consumer's AckWait is over, another
// loader serves it.
func TestEventsOfADeadLoaderAreServed(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn, own := server.Connect(t), server.Connect(t)
	js := natstest.JetStream(t, conn)
	if err := kv.Ensure(t.Context(), js, Resources("ids", 1)...); err != nil {
		t.Fatal(err)
	}
	shared, err := js.Consumer(t.Context(), loadmsg.StreamName("ids"), Consumer)
	if err != nil {
		t.Fatal(err)
	}
	config := shared.CachedInfo().Config
	config.AckWait = ackMargin + 500*time.Millisecond
	if _, err := js.UpdateConsumer(t.Context(), loadmsg.StreamName("ids"), config); err != nil {
		t.Fatal(err)
	}
	start := func(s store.Reserver, conn *nats.Conn) {
		t.Helper()
		l := New(Config{
			Store: s, StoreName: "fake", Control: conn, JS: natstest.JetStream(t, conn), Prefix: "ids", Installation: "here", Replicas: 1,
			Reservations: 8, MaxStep: 1000, Timeout: natstest.Patience, Foreign: &loadmsg.Foreign{Installation: "here", Log: zap.NewNop()}, Log: zap.NewNop(),
		})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	grants := make(chan *nats.Msg, 10)
	if _, err := conn.ChanSubscribe(loadmsg.GrantSubject("ids", "a"), grants); err != nil {
		t.Fatal(err)
	}

	s := frozen{newFakeStore(), make(chan struct{}), make(chan struct{}), new(sync.Once)}
	start(s, own)
	t.Cleanup(func() { close(s.released) })
	event := load("order", 0, time.Hour)
	if _, err := js.Publish(t.Context(), loadmsg.Subject("ids", event.Instance, event.Tag), event.Encode()); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a loader with an event in hand", func() bool {
		select {
		case <-s.received:
			return true
		default:
			return false
		}
	})
	own.Close()
	other := newFakeStore()
	start(other, conn)
	natstest.Eventually(t, "a grant of the other loader", func() bool { return len(grants) > 0 })
	if n := other.served(); !slices.Equal(n, []string{"order"}) {
		t.Errorf("the other loader served %v", n)
	}
	natstest.Eventually(t, "an empty stream", func() bool {
		stream, err := js.Stream(t.Context(), loadmsg.StreamName("ids"))
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}
