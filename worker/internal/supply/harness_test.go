package supply

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const usualWait = 2 * time.Second

// config is the configuration of a process with a connection.
func config(conn *nats.Conn) Config {
	return Config{
		Prefix: messages.DefaultPrefix, Instance: "me", Installation: "ours", Control: conn,
		MaxStep: 1_000_000, Wait: usualWait,
		Foreign: &loadmsg.Foreign{Installation: "ours", Log: zap.NewNop()}, Log: zap.NewNop(),
	}
}

// fakeLoader is the own loader of a process in virtual time. Its answers take a
// millisecond.
type fakeLoader struct {
	s *Supply

	mu    sync.Mutex
	order store.Order
	step  int64
	// First ID of the tag's next grant.
	next map[string]int64
	// Instead of a grant, unless it is zero; gets the number of earlier events.
	reply  func(loadmsg.Event, int) loadmsg.Grant
	silent bool
	events []loadmsg.Event
}

// Load takes an event.
func (f *fakeLoader) Load(e loadmsg.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	if f.silent {
		return true
	}
	g := f.grant(e, len(f.events)-1)
	time.AfterFunc(time.Millisecond, func() { f.s.receive(&nats.Msg{Data: g.Encode()}) })
	return true
}

// grant is the answer to an event. f.mu is held.
func (f *fakeLoader) grant(e loadmsg.Event, before int) (g loadmsg.Grant) {
	if f.reply != nil {
		g = f.reply(e, before)
	}
	if g == (loadmsg.Grant{}) {
		g.First = max(1, f.next[e.Tag])
		g.End = g.First + store.Want{Step: e.Step, Waiting: e.Want, Most: 1 << 40}.Size(f.order, f.step)
		g.Step, g.Order = f.step, f.order
		f.next[e.Tag] = g.End
	}
	g.Instance, g.Tag, g.Seq, g.Installation = e.Instance, e.Tag, e.Seq, e.Installation
	return g
}

// change changes the loader.
func (f *fakeLoader) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// count is the number of events so far.
func (f *fakeLoader) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

// seen returns the events so far.
func (f *fakeLoader) seen() []loadmsg.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]loadmsg.Event(nil), f.events...)
}

// noStream is a JetStream without streams.
type noStream struct{ jetstream.JetStream }

func (noStream) Publish(context.Context, string, []byte, ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return nil, jetstream.ErrNoStreamResponse
}

// testVirtual runs a supply in virtual time, without a NATS server. All its
// loads go to its own loader.
func testVirtual(t *testing.T, order store.Order, wait time.Duration, test func(t *testing.T, s *Supply, f *fakeLoader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLoader{order: order, step: 10, next: make(map[string]int64)}
		cfg := config(&nats.Conn{}) // not connected
		cfg.Own, cfg.JS, cfg.Wait = f.Load, noStream{}, wait
		f.s = New(cfg)
		f.s.goroutines.Start(f.s.run)
		defer func() {
			if err := f.s.Stop(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour) // everything in flight ends
		}()
		test(t, f.s, f)
	})
}

// caller requests IDs until it gets them.
type caller struct {
	s   *Supply
	tag string
	n   int64

	mu   sync.Mutex
	ids  []store.Segment
	errs []error
}

// request sends a single request.
func (c *caller) request() {
	ids, err := c.s.Allocator().TakeOrPark(allocator.Request{Tag: c.tag, N: c.n, From: c})
	if ids != nil || err != nil {
		c.Reply(ids, err)
	}
}

// Reply is part of Requester.
func (c *caller) Reply(ids []store.Segment, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids = ids; err != nil {
		c.errs = append(c.errs, err)
		time.AfterFunc(100*time.Millisecond, c.request)
	}
}

func (c *caller) served() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids != nil
}

// startCaller starts a caller that wants n IDs of a tag.
func startCaller(s *Supply, tag string, n int64) *caller {
	c := &caller{s: s, tag: tag, n: n}
	c.request()
	return c
}

func unserved(callers []*caller) (n int) {
	for _, c := range callers {
		if !c.served() {
			n++
		}
	}
	return n
}
