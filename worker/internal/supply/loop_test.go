package supply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/loadmsg"
)

// remoteLoader receives loads as plain messages, like the loaders of other
// processes.
type remoteLoader struct {
	t    *testing.T
	conn *nats.Conn

	mu     sync.Mutex
	answer func(e loadmsg.Event) *loadmsg.Grant // nil: no answer
	events map[string][]loadmsg.Event
}

// startRemoteLoader starts a loader that grants consecutive segments.
func startRemoteLoader(t *testing.T, conn *nats.Conn, order store.Order) *remoteLoader {
	t.Helper()
	next := int64(1)
	l := &remoteLoader{t: t, conn: conn, events: make(map[string][]loadmsg.Event)}
	l.answer = func(e loadmsg.Event) *loadmsg.Grant {
		g := &loadmsg.Grant{First: next, Step: 10, Order: order}
		next += store.Want{Step: e.Step, Waiting: e.Want, Most: 1 << 40}.Size(order, 10)
		g.End = next
		return g
	}
	if _, err := conn.QueueSubscribe(loadmsg.ReserveSubject(messages.DefaultPrefix), "loaders", l.receive); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushTimeout(natstest.Patience); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *remoteLoader) receive(msg *nats.Msg) {
	e, err := loadmsg.DecodeEvent(msg.Data, 1<<40)
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[e.Tag] = append(l.events[e.Tag], e)
	if g := l.answer(e); g != nil {
		g.Instance, g.Tag, g.Seq, g.Installation = e.Instance, e.Tag, e.Seq, cmp.Or(g.Installation, e.Installation)
		if err := l.conn.Publish(loadmsg.GrantSubject(messages.DefaultPrefix, e.Instance), g.Encode()); err != nil {
			l.t.Error(err)
		}
	}
}

func (l *remoteLoader) of(tag string) []loadmsg.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[tag])
}

// start starts a supply.
func start(t *testing.T, cfg Config) *Supply {
	t.Helper()
	s := New(cfg)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func configWithJetStream(t *testing.T, conn *nats.Conn) Config {
	cfg := config(conn)
	cfg.JS = natstest.JetStream(t, conn)
	return cfg
}

func createLoadStream(t *testing.T, js jetstream.JetStream, replicas int) {
	t.Helper()
	natstest.CreateStream(t, js, jetstream.StreamConfig{
		Name: loadmsg.StreamName(messages.DefaultPrefix), Subjects: []string{loadmsg.Subject(messages.DefaultPrefix, "*", ">")}, Replicas: replicas,
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
	})
}

// TestLostLoadIsRequestedAgain: if a load or its grant was lost, the load is
// requested again under its number until it is answered.
func TestLostLoadIsRequestedAgain(t *testing.T) {
	t.Parallel()
	for _, order := range []store.Order{store.Trend, store.Strict} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t)
			loader := startRemoteLoader(t, server.Connect(t), order)
			grant := loader.answer
			var numbers []uint64
			sent := make(map[uint64][]loadmsg.Event) // by number
			loader.answer = func(e loadmsg.Event) *loadmsg.Grant {
				if sent[e.Seq] == nil {
					numbers = append(numbers, e.Seq)
				}
				if sent[e.Seq] = append(sent[e.Seq], e); len(sent[e.Seq])%3 != 0 {
					return nil
				}
				return grant(e)
			}
			cfg := configWithJetStream(t, server.Connect(t))
			cfg.Wait = natstest.Patience / 4
			s := start(t, cfg)
			// The first load is of an unknown tag.
			for n := int64(1); n <= 2; n++ {
				c := startCaller(s, "order", 100*n)
				natstest.Eventually(t, "the IDs", c.served)
				if len(c.errs) > 0 {
					t.Errorf("got %v", c.errs)
				}
			}
			loader.mu.Lock()
			defer loader.mu.Unlock()
			for _, n := range numbers[:2] {
				three := sent[n][:3]
				// A trend tag's second load begins as a refill.
				if slices.ContainsFunc(three, func(e loadmsg.Event) bool { return e.Want != three[2].Want && (order != store.Trend || e.Want != 0) }) {
					t.Errorf("requested %+v, want the same load three times", three)
				}
			}
		})
	}
}

// TestOwnLoaderDeclines: if the own loader declines, any other loader gets the
// load.
func TestOwnLoaderDeclines(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	startRemoteLoader(t, server.Connect(t), store.Trend)
	cfg := configWithJetStream(t, server.Connect(t))
	cfg.Own = func(loadmsg.Event) bool { return false } // its store fails
	natstest.Eventually(t, "the IDs", startCaller(start(t, cfg), "order", 1).served)
}

// use takes single IDs until the condition holds.
func use(t *testing.T, s *Supply, tag, what string, cond func() bool) {
	t.Helper()
	natstest.Eventually(t, what, func() bool {
		natstest.Eventually(t, "an ID", startCaller(s, tag, 1).served)
		return cond()
	})
}

// TestRefills: a load without waiting requests goes into the stream; directly
// to a loader while the stream is unavailable, which is logged once; and into
// the stream again when it is back. While the stream holds a load of its tag,
// it goes nowhere else.
func TestRefills(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	loader := startRemoteLoader(t, server.Connect(t), store.Trend)
	core, lines := observer.New(zap.InfoLevel)
	cfg := configWithJetStream(t, server.Connect(t))
	cfg.Log = zap.New(core)
	cfg.MaxStep = 10 // so that many are needed
	s := start(t, cfg)
	refills := func() (n int) {
		for _, e := range loader.of("order") {
			if e.Want == 0 {
				n++
			}
		}
		return n
	}
	use(t, s, "order", "refills without the stream", func() bool { return refills() >= 10 })
	away := func() int { return lines.FilterMessage("load stream unavailable, loading directly").Len() }
	if n := away(); n != 1 {
		t.Errorf("%d lines say that the stream is away, want 1", n)
	}
	createLoadStream(t, cfg.JS, 1)
	stored := func(tag string) bool {
		stream, err := cfg.JS.Stream(t.Context(), loadmsg.StreamName(messages.DefaultPrefix))
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.GetLastMsgForSubject(t.Context(), loadmsg.Subject(messages.DefaultPrefix, "me", tag))
		return err == nil
	}
	use(t, s, "order", "a refill in the stream", func() bool { return stored("order") })
	back := func() int { return lines.FilterMessage("load stream available again").Len() }
	// The confirmation may come too late, but later events are refused.
	use(t, s, "order", "a line that the stream is back", func() bool { return back() >= 1 })

	// No loader consumes the stream, so it keeps the event.
	useSegments := func(n int64) {
		before := s.Figures(1).Grants.Installed
		use(t, s, "order", "segments for parked requests", func() bool { return s.Figures(1).Grants.Installed >= before+n })
	}
	natstest.Eventually(t, "a second with the stream", func() bool {
		began, up := time.Now(), back()
		useSegments(1) // ends the load that is under way
		straight := refills()
		useSegments(3)
		n := refills() - straight
		// The stream may not confirm in time, or a refill may have been refused often.
		slow := away() != up || time.Since(began) > allocator.DefaultReAsk
		if n != 0 && !slow {
			t.Fatalf("%d refills went straight to a loader while one was queued", n)
		}
		return n == 0
	})
}

// TestRefusalProvesTheStream: a stream that refuses an event because it holds one
// is available, although the confirmation of that event came too late.
func TestRefusalProvesTheStream(t *testing.T) {
	s := New(config(&nats.Conn{}))
	s.conclude(publication{"order", 1, context.DeadlineExceeded})
	if s.away.IsZero() {
		t.Error("available without a confirmation")
	}
	s.conclude(publication{"order", 2, &jetstream.APIError{ErrorCode: storeFailed, Description: maxPerSubject}})
	if !s.away.IsZero() {
		t.Error("unavailable although it has answered")
	}
}

// TestAnswersOfLoaders: each refusal has its error. Answers to other processes,
// or of another installation, are dropped.
func TestAnswersOfLoaders(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	loader := startRemoteLoader(t, server.Connect(t), store.Trend)
	answers := map[string]loadmsg.Grant{
		"none":      {Refused: messages.CodeNoTag},
		"exhausted": {Refused: messages.CodeExhausted},
		"busy":      {Refused: messages.CodeBusy, Reason: "the template is full", FullTemplate: "*"},
		"corrupt":   {Refused: messages.CodeUnavailable, Reason: "not a number"},
		"foreign":   {First: 1, End: 1000, Step: 1000, Order: store.Trend, Installation: "theirs"},
	}
	loader.answer = func(e loadmsg.Event) *loadmsg.Grant { g := answers[e.Tag]; return &g }
	s := start(t, configWithJetStream(t, server.Connect(t)))
	for tag, want := range map[string]error{
		"none": store.ErrNoTag, "exhausted": store.ErrExhausted, "busy": messages.ErrBusy, "corrupt": nil, "foreign": allocator.ErrNoSegment,
	} {
		c := startCaller(s, tag, 1)
		var ids []store.Segment
		var err error // the first one, but that of a request which got no answer in time
		natstest.Eventually(t, "a reply", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			ids = c.ids
			if i := slices.IndexFunc(c.errs, func(err error) bool {
				return errors.Is(want, allocator.ErrNoSegment) || !errors.Is(err, allocator.ErrNoSegment)
			}); i >= 0 {
				err = c.errs[i]
			}
			return err != nil || ids != nil
		})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: got %v, %v, want %v", tag, ids, err, want)
		}
		if tag == "busy" {
			want := messages.Error{Code: messages.CodeBusy, Text: answers[tag].Reason, FullTemplate: answers[tag].FullTemplate}
			if reply, ok := errors.AsType[*messages.Error](err); !ok || *reply != want {
				t.Errorf("%s: got %#v, want the loader's words and template", tag, err)
			}
		}
	}
}

// TestWhatCountsAsAnAnswer: every answer of a loader counts, and brings the
// loader's decision, but not messages for another process, or of another
// installation.
func TestWhatCountsAsAnAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		grant loadmsg.Grant
		want  bool
	}{
		"a grant":                {loadmsg.Grant{Instance: "me", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend, Installation: "ours"}, true},
		"a refusal":              {loadmsg.Grant{Instance: "me", Tag: "order", Refused: messages.CodeNoTag, Installation: "ours"}, true},
		"not now":                {loadmsg.Grant{Instance: "me", Tag: "order", NotNow: loadmsg.NotNowTag, Installation: "ours"}, true},
		"a store that fails":     {loadmsg.Grant{Instance: "me", Tag: "order", NotNow: loadmsg.NotNowStore, Installation: "ours"}, true},
		"another installation's": {loadmsg.Grant{Instance: "me", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend, Installation: "theirs"}, false},
		"of no installation":     {loadmsg.Grant{Instance: "me", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend}, false},
		"another process's":      {loadmsg.Grant{Instance: "you", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend, Installation: "ours"}, false},
		"no grant":               {loadmsg.Grant{Instance: "me", Tag: "order", Installation: "ours"}, false},
	} {
		s := New(config(&nats.Conn{}))
		s.unanswered.requested(time.Now(), loadmsg.Event{Tag: "order"})
		c.grant.Floor = 1000
		done := make(chan struct{})
		go func() { defer close(done); s.receive(&nats.Msg{Data: c.grant.Encode()}) }()
		select {
		case g := <-s.grants:
			s.handle(g)
		case <-done:
		}
		<-done
		if got := s.unanswered.since.IsZero(); got != c.want {
			t.Errorf("%s counts as an answer: %t, want %t", what, got, c.want)
		}
		if got := s.Floor() == 1000; got != c.want {
			t.Errorf("%s brings a decision: %t, want %t", what, got, c.want)
		}
	}
}

// TestLoadersAreFound: the server reports whether a process listens for loads.
func TestLoadersAreFound(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	s := New(config(server.Connect(t)))
	defer s.goroutines.Stop()
	find := func() LoaderState {
		s.lookForLoaders(loadmsg.Event{Instance: "me", Tag: "order", Want: 1})
		return <-s.loaders
	}
	// Without an answer of the server, a loader may be there.
	natstest.Eventually(t, "the server reports that there is no loader", func() bool { return find() == NoLoader })
	startRemoteLoader(t, server.Connect(t), store.Trend)
	if state := find(); state != SomeLoader {
		t.Errorf("with a loader: %v", loaderStates[state])
	}
}

// TestDrop: workers drop a tag's buffer.
func TestDrop(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	startRemoteLoader(t, server.Connect(t), store.Trend)
	s := start(t, configWithJetStream(t, server.Connect(t)))
	natstest.Eventually(t, "an ID", startCaller(s, "order", 1).served)
	if err := Drop(t.Context(), server.Connect(t), messages.DefaultPrefix, "order"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the tag to be dropped", func() bool { return s.Allocator().Tags() == 0 })
	if err := Drop(t.Context(), server.Connect(t), messages.DefaultPrefix, "order.*"); err == nil {
		t.Error("a wildcard was accepted as a tag")
	}
}

// TestStop: due replies are sent, and a later grant is discarded. It may be
// called on a closed connection.
func TestStop(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := server.Connect(t)
	s := New(configWithJetStream(t, conn))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.goroutines.Stop() // the loop
	c := &caller{s: s, tag: "order", n: 1}
	c.request()
	s.Allocator().Remove("order")
	conn.Close()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if c.mu.Lock(); len(c.errs) != 1 || !errors.Is(c.errs[0], allocator.ErrDropped) {
		t.Errorf("got %v", c.errs)
	}
	c.mu.Unlock()
	s.receive(&nats.Msg{Data: loadmsg.Grant{Instance: "me", Tag: "order", First: 1, End: 2, Step: 1, Order: store.Trend, Installation: "ours"}.Encode()})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(configWithJetStream(t, server.Connect(t))).Start(ended); err == nil {
		t.Error("started although the server did not confirm")
	}
}

// TestEventsSayWhatTheWorkerKnows: a load tells loaders the decision that the worker
// has learned, the highest sequence of the register that a grant under it has shown,
// and the end of the tag's latest segment. Grants that are not used count, too,
// unless they are from before the decision.
func TestEventsSayWhatTheWorkerKnows(t *testing.T) {
	testVirtual(t, store.Trend, usualWait, func(t *testing.T, s *Supply, f *fakeLoader) {
		const end = 101
		f.reply = func(loadmsg.Event, int) loadmsg.Grant {
			return loadmsg.Grant{First: 1, End: end, Step: 100, Order: store.Trend, Floor: 1, Sequence: 7}
		}
		wants := func(when string, want store.Line) {
			t.Helper()
			if got := s.Position(); got != want {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		grant := func(floor int64, sequence uint64, installation string) {
			t.Helper()
			g := loadmsg.Grant{
				Instance: "me", Tag: "order", Seq: 1 << 60, First: 1, End: 2, Step: 1, Order: store.Trend,
				Installation: installation, Floor: floor, Sequence: sequence,
			}
			s.receive(&nats.Msg{Data: g.Encode()})
			time.Sleep(time.Millisecond)
		}
		wants("at first", store.Line{})
		s.Learn(1)
		startCaller(s, "order", end-1)
		time.Sleep(10 * time.Millisecond)
		wants("after a grant", store.Line{Floor: 1, Sequence: 7})
		grant(1, 9, "ours")
		grant(1, 8, "ours")
		grant(1, 100, "theirs")
		grant(0, 200, "ours") // names no decision
		wants("after grants that are not used", store.Line{Floor: 1, Sequence: 9})
		events := f.seen()
		first, last := events[0], events[len(events)-1]
		if first.Floor != 1 || first.Sequence != 0 || first.Next != 0 || last.Floor != 1 || last.Sequence != 7 || last.Next != end {
			t.Errorf("the first event says %+v, the last one %+v", first, last)
		}
		s.Learn(1000)
		grant(1, 300, "ours")
		wants("after a decision", store.Line{Floor: 1000})
		grant(2000, 5, "ours")
		wants("after a grant that brings a decision", store.Line{Floor: 2000, Sequence: 5})
	})
}
