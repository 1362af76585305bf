package neighbours

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

var (
	oldest  = Installation{"A", time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC)}
	younger = Installation{"B", oldest.Created.Add(1)} // a nanosecond
)

// member is a process of a test.
type member struct {
	*Watch
	leaves, returns atomic.Int64
}

// newMember makes a process of an installation that says hello often.
func newMember(t *testing.T, conn *nats.Conn, of Installation, instance string) *member {
	m := &member{}
	m.Watch = New(Config{
		Conn: conn, Prefix: messages.DefaultPrefix, Self: Process{of, instance, "host-" + instance},
		Leave:  func(*ForeignError) { m.leaves.Add(1) },
		Return: func() { m.returns.Add(1) },
		Log:    zaptest.NewLogger(t),
	})
	m.timing.every = 100 * time.Millisecond
	m.timing.gone = 30 // a process that is slow for a second has not gone
	return m
}

// soon is a context for one start.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// run runs the process until the test ends or the function is called.
func (m *member) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { m.Run(ctx); close(ended) }()
	stop = func() {
		if cancel(); ctx.Err() != nil {
			<-ended
		}
		if err := m.Close(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// Of two installations with many processes each, at both ends of a leaf node link, all
// processes of the younger one leave, all of the older one stay, and the younger ones come
// back when the older ones are gone. The messages grow with the processes, not with their
// square.
func TestManyProcessesMeet(t *testing.T) {
	t.Parallel()
	const each = 10
	port := freeport.Get(t)
	hub := natstest.Start(t, func(o *server.Options) { o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", port })
	leaf := natstest.Start(t, func(o *server.Options) {
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}}}}
	})
	natstest.Eventually(t, "the link", func() bool { return hub.Running().NumLeafNodes() == 1 })
	// Some processes of each installation are at the other end, as with a domain named at a
	// leaf node: such a queue group has members at both.
	var stay, leave []*member
	var stops []func()
	for i := range each {
		at, other := hub, leaf
		if i%5 == 0 {
			at, other = leaf, hub
		}
		stay = append(stay, newMember(t, at.Connect(t), oldest, fmt.Sprint("a", i)))
		leave = append(leave, newMember(t, other.Connect(t), younger, fmt.Sprint("b", i)))
	}
	for i := range each { // as if the link had come later: nobody looked around
		for _, m := range []*member{stay[i], leave[i]} {
			if err := m.subscribe(soon(t)); err != nil {
				t.Fatal(err)
			}
			m.serving.Store(true)
		}
	}
	for i := range each {
		stops = append(stops, stay[i].run(t))
		leave[i].run(t)
	}
	natstest.Eventually(t, "all of the younger installation have left", func() bool { return count(leave, hasLeft) == each })

	observer := hub.Connect(t)
	hellos, err := observer.SubscribeSync(Subject(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	if err := observer.Flush(); err != nil {
		t.Fatal(err)
	}
	heard := func() (n int64) {
		for _, m := range append(stay, leave...) {
			n += m.Heard()
		}
		return n
	}
	before := heard()
	natstest.Eventually(t, "hellos", func() bool { return heard()-before > 20*each })
	got := heard() - before
	if err := observer.Flush(); err != nil {
		t.Fatal(err)
	}
	// A hello is heard by one process of the other installation, and answered once. Some
	// are on their way.
	if n, _, _ := hellos.Pending(); got > int64(2*n+4*each) {
		t.Errorf("%d messages of the other installation were received, of %d hellos", got, n)
	}
	if n := count(stay, hasLeft); n > 0 {
		t.Errorf("%d of the older installation left", n)
	}
	for _, m := range leave {
		if left := m.Left(); left == nil || left.Other.Installation != oldest || left.Own != m.cfg.Self {
			t.Errorf("%+v", left)
		}
		if n := m.leaves.Load(); n != 1 || m.returns.Load() != 0 {
			t.Errorf("left %d times, returned %d times", n, m.returns.Load())
		}
	}

	for _, stop := range stops[1:] {
		stop()
	}
	time.Sleep(10 * 100 * time.Millisecond)
	if n := count(leave, hasLeft); n != each {
		t.Errorf("%d of %d are still out while one process of the older installation serves", n, each)
	}
	stops[0]()
	natstest.Eventually(t, "all are back", func() bool { return count(leave, hasLeft) == 0 })
}

func hasLeft(m *member) bool { return m.Left() != nil }

func count(all []*member, is func(*member) bool) (n int) {
	for _, m := range all {
		if is(m) {
			n++
		}
	}
	return n
}

// Who may start beside whom.
func TestAdmit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		self, other Installation
		serving     bool
		admitted    bool
	}{
		"beside the own installation":            {oldest, oldest, true, true},
		"beside an older one":                    {younger, oldest, true, false},
		"beside a younger one":                   {oldest, younger, true, false},
		"while an older one starts":              {younger, oldest, false, false},
		"while a younger one starts or has left": {oldest, younger, false, true},
		"as old as one with a lesser ID":         {Installation{"B", oldest.Created}, oldest, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := natstest.Start(t)
			other := newMember(t, net.Connect(t), c.other, "other")
			if err := other.subscribe(soon(t)); err != nil {
				t.Fatal(err)
			}
			other.serving.Store(c.serving)
			defer func() { _ = other.Close() }()
			self := newMember(t, net.Connect(t), c.self, "self")
			if !c.admitted {
				self.timing.admit = natstest.Patience
			}
			err := self.Admit(soon(t))
			if c.admitted {
				if err != nil || !self.serving.Load() {
					t.Errorf("%v, serving %v", err, self.serving.Load())
				}
				_ = self.Close()
				return
			}
			var foreign *ForeignError
			if !errors.As(err, &foreign) || !errors.Is(err, ErrForeign) || foreign.Other != other.cfg.Self || foreign.Own != self.cfg.Self {
				t.Fatalf("%v, want a ForeignError about %v", err, other.cfg.Self)
			}
			for _, part := range []string{c.self.String(), c.other.String(), "process other on host host-other", "ids.>"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if n := self.cfg.Conn.NumSubscriptions(); n != 0 {
				t.Errorf("%d subscriptions are left behind", n)
			}
		})
	}
}

// Of two that start at once, one is admitted, and only one.
func TestAdmitBoth(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	ctx := soon(t)
	var both []*member
	for _, i := range []Installation{oldest, younger} {
		m := newMember(t, net.Connect(t), i, "of"+i.ID)
		if err := m.subscribe(ctx); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		if i == younger { // it waits for the older one
			m.timing.admit = natstest.Patience
		}
		both = append(both, m)
	}
	var outcome [2]error
	var wg sync.WaitGroup
	for i, m := range both {
		wg.Go(func() { outcome[i] = m.lookAround(ctx) })
	}
	wg.Wait()
	if outcome[0] != nil || !errors.Is(outcome[1], ErrForeign) {
		t.Errorf("the older one: %v; the younger one: %v", outcome[0], outcome[1])
	}
}

// What a running process makes of those that it meets.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		self, other Installation
		serving     bool
		leaves      bool
	}{
		"an older one serves":            {younger, oldest, true, true},
		"an older one starts":            {younger, oldest, false, false},
		"a younger one serves":           {oldest, younger, true, false},
		"a younger one has left":         {oldest, younger, false, false},
		"as old, and has the lesser ID":  {Installation{"B", oldest.Created}, oldest, true, true},
		"as old, and has the greater ID": {oldest, Installation{"B", oldest.Created}, true, false},
	} {
		m := newMember(t, nil, c.self, "self")
		m.serving.Store(true)
		for range 3 {
			m.judge(Hello{Process: Process{c.other, "other", ""}, Serving: c.serving})
		}
		want := int64(0)
		if c.leaves {
			want = 1
		}
		if got := m.leaves.Load(); got != want || (m.Left() != nil) != c.leaves || m.serving.Load() == c.leaves {
			t.Errorf("%s: left %d times, serving %v", name, got, m.serving.Load())
		}
	}
}

func TestHelloThereAndBack(t *testing.T) {
	t.Parallel()
	for _, h := range []Hello{
		{Process: Process{oldest, "W1", "host.example"}, Serving: true},
	} {
		if got, err := decodeHello(h.encode()); got != h || err != nil {
			t.Errorf("%+v became %+v, %v", h, got, err)
		}
	}
}

func FuzzDecodeHello(f *testing.F) {
	good := Hello{Process: Process{oldest, "W1", "host"}, Serving: true}
	f.Add(good.encode())
	for _, data := range []string{
		"", "null", "[]", `{"installation":"A"}`, `{"installation":"A","instance":"W1"}`,
		`{"installation":"A","instance":"W.>","created":"2026-01-01T00:00:00Z"}`,
		`{"installation":"*","instance":"W1","created":"2026-01-01T00:00:00Z"}`,
		`{"installation":"A","instance":"` + strings.Repeat("x", 33) + `","created":"2026-01-01T00:00:00Z"}`,
		`{"installation":"A","instance":"W1","created":"yesterday"}`,
	} {
		if _, err := decodeHello([]byte(data)); !errors.Is(err, ErrMalformed) {
			f.Errorf("%q: %v, want ErrMalformed", data, err)
		}
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := decodeHello(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return
		}
		if subject := AnswerSubject(messages.DefaultPrefix, h.Instance); strings.Count(subject, ".") != 2 || strings.ContainsAny(subject, "*> \r\n\t") {
			t.Fatalf("answers go to %q", subject)
		}
		if h.Installation.ID == "" || h.Installation.Created.IsZero() || len(h.Host) > maxHostLen {
			t.Fatalf("%+v", h)
		}
	})
}
