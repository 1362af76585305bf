package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// storeCalls counts the calls of a store for made-up names.
type storeCalls struct {
	*register.Store
	madeUp atomic.Int64
}

// madeUp is how made-up names begin.
const madeUp = "chat.made-up-"

func (s *storeCalls) count(tag string) {
	if strings.HasPrefix(tag, madeUp) {
		s.madeUp.Add(1)
	}
}

func (s *storeCalls) Lookup(ctx context.Context, tag string) (store.Tag, error) {
	s.count(tag)
	return s.Store.Lookup(ctx, tag)
}

// firstUses is an installation with templates.
type firstUses struct {
	*testing.T
	net    worker.Account
	js     jetstream.JetStream
	client client
}

func newFirstUses(t *testing.T) firstUses {
	f := firstUses{T: t, net: worker.NewAccount(t)}
	f.js = newJetStream(t, f.net)
	if err := worker.Provision(t.Context(), f.js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	f.client = newClient(t, f.net)
	return f
}

func (f firstUses) template(t templates.Template) {
	f.Helper()
	t.Step, t.Order = 10, cmp.Or(t.Order, store.Trend)
	if err := templates.Create(f.Context(), f.js, messages.DefaultPrefix, t); err != nil {
		f.Fatal(err)
	}
}

// all starts a process of both roles, and returns how often its store was called.
func (f firstUses) all() (*worker.Process, *storeCalls) {
	f.Helper()
	s := &storeCalls{Store: newStore(f, f.net, 1)}
	return startWorker(f, f.net, worker.Config{Store: s, StoreName: "jetstream"}), s
}

// TestFirstUse: a tag that matches comes into being when it is asked for, from 1 on; one that does not is
// unknown. After a restart it goes on above.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "chat.*"})
	w, _ := f.all()
	last := make(map[string]int64)
	for i := range 10 {
		tag := fmt.Sprint("chat.", i)
		if last[tag] = f.client.must(tag); last[tag] != 1 {
			t.Errorf("the first ID of %s is %d", tag, last[tag])
		}
	}
	if _, err := f.client.ask("chat", 1); !errors.Is(err, messages.ErrNoTag) {
		t.Errorf("a tag that does not match: %v, want ErrNoTag", err)
	}
	stop(t, w)
	f.all()
	for tag := range last {
		if id := f.client.must(tag); id <= last[tag] || id > 1000 {
			t.Errorf("%s: %d after a restart, %d before", tag, id, last[tag])
		}
	}
}

// TestFullTemplate: made-up names get 429, few of them touch the store, and none stays in memory. Ordinary tags, those of
// other templates and those that are in memory are answered meanwhile, and after that all that exist are.
func TestFullTemplate(t *testing.T) {
	t.Parallel()
	const most = 20
	names := tier.Pick(3_000, 100_000)
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "chat.*", MaxTags: most})
	w, _ := f.all()
	for i := range most {
		f.client.must(fmt.Sprint("chat.", i))
	}
	stop(t, w) // so that they are in nobody's memory
	w, calls := f.all()
	createTags(t, newStore(t, f.net, 1), 100_000, "order")
	f.client.must("order")
	f.awaitRefused(madeUp) // the names in the register are read
	f.awaitID("chat.0")    // it is in memory
	calls.madeUp.Store(0)
	busy := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-busy:
				return
			default:
			}
			for _, tag := range []string{"order", "chat.0"} {
				if _, err := f.client.patiently(tag, 1); err != nil {
					t.Errorf("%s, while others make up names: %v", tag, err)
					return
				}
			}
		}
	})
	began := time.Now()
	f.attack(names)
	took := time.Since(began)
	close(busy)
	others.Wait()
	if n, may := calls.madeUp.Load(), int64(1000+1000*took.Seconds()); n > may {
		t.Errorf("%d calls of the store for made-up names in %v", n, took)
	}
	if n := scrape(t, w)["tags"]; n != 2 {
		t.Errorf("%v tags are in memory, want 2", n)
	}
	for i := range most {
		f.client.must("order")
		if id := f.awaitID(fmt.Sprint("chat.", i)); id < 2 {
			t.Errorf("chat.%d: %d again", i, id)
		}
	}
}

// awaitRefused waits until a tag is refused with 429.
func (f firstUses) awaitRefused(tag string) {
	f.Helper()
	natstest.Eventually(f, tag+" to be refused", func() bool {
		ids, err := f.client.ask(tag, 1)
		if err == nil {
			f.Fatalf("%s got %v", tag, ids)
		}
		return errors.Is(err, messages.ErrBusy)
	})
}

// awaitID waits until a template that is shut lets a tag that exists through.
func (f firstUses) awaitID(tag string) int64 {
	f.Helper()
	ranges, err := f.client.patiently(tag, 1)
	if err != nil {
		f.Fatalf("%s: %v", tag, err)
	}
	return ranges[0].First
}

// attackUnderWay is how many made-up names are asked for at a time.
const attackUnderWay = 512

// attack requests that many names that nobody knows, many at a time, all of which have to get 429.
func (f firstUses) attack(names int) {
	f.Helper()
	conn := f.net.Connect(f)
	inbox, replies := conn.NewInbox(), make(chan *nats.Msg, attackUnderWay)
	if _, err := conn.ChanSubscribe(inbox, replies); err != nil {
		f.Fatal(err)
	}
	for sent, answered := 0, 0; answered < names; {
		if sent < names && sent-answered < attackUnderWay {
			if err := conn.PublishRequest(messages.DefaultPrefix.Segment(fmt.Sprint(madeUp, sent)), inbox, nil); err != nil {
				f.Fatal(err)
			}
			sent++
			continue
		}
		select {
		case m := <-replies:
			if _, err := messages.DecodeReply(m, 1); !errors.Is(err, messages.ErrBusy) {
				f.Fatalf("a made-up name: %v, want ErrBusy", err)
			}
		case <-time.After(natstest.Patience):
			f.Fatalf("%d requests were not answered", sent-answered)
		}
		answered++
	}
}

// TestRemovedTag: workers drop a tag that was removed. One of a template comes back with the next request, above what
// it had; and another order than its name had is refused, with the reason.
func TestRemovedTag(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "chat.*"})
	f.all()
	s := newStore(t, f.net, 1)
	createTags(t, s, 1000, "order")
	last := f.client.must("chat.1")
	f.client.must("order")
	remove := func(tag string) {
		t.Helper()
		if err := errors.Join(s.RemoveTag(t.Context(), tag), worker.DropTag(t.Context(), f.client.conn, messages.DefaultPrefix, tag)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(tag string, want error) {
		t.Helper()
		natstest.Eventually(t, tag+" to be refused", func() bool {
			_, err := f.client.ask(tag, 1)
			return errors.Is(err, want)
		})
	}
	remove("order")
	refused("order", messages.ErrNoTag)
	remove("chat.1")
	natstest.Eventually(t, "it is out of memory", func() bool {
		id := f.client.must("chat.1")
		if id <= last {
			t.Fatalf("%d after %d", id, last)
		}
		last = id
		return id > 10
	})
	if err := templates.Remove(t.Context(), f.js, messages.DefaultPrefix, "chat.*"); err != nil {
		t.Fatal(err)
	}
	names := 0
	natstest.Eventually(t, "new tags to be refused", func() bool {
		names++
		_, err := f.client.ask(fmt.Sprint("chat.late", names), 1)
		return errors.Is(err, messages.ErrNoTag)
	})
	if id := f.client.must("chat.1"); id <= last {
		t.Errorf("%d after %d: a tag outlives its template", id, last)
	}
	remove("chat.1")
	refused("chat.1", messages.ErrNoTag)
	f.template(templates.Template{Pattern: "chat.*", Order: store.Strict})
	refused("chat.1", messages.ErrBusy)
	if _, err := f.client.ask("chat.1", 1); err == nil || !strings.Contains(err.Error(), "order") {
		t.Errorf("the other order: %v, want the reason", err)
	}
	if id := f.client.must("chat.3"); id != 1 {
		t.Errorf("a new one begins with %d", id)
	}
}

// TestUnknownTag: it is 404, and a tag that is created later is answered within seconds, without a word to
// any worker.
func TestUnknownTag(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s})
	c := newClient(t, net)
	if _, err := c.ask("later", 1); !errors.Is(err, messages.ErrNoTag) {
		t.Errorf("got %v", err)
	}
	createTags(t, s, 100, "later", "at-once")
	if id := c.must("at-once"); id != 1 {
		t.Errorf("got %d", id)
	}
	natstest.Eventually(t, "the new tag", func() bool {
		_, err := c.ask("later", 1)
		if err != nil && !errors.Is(err, messages.ErrNoTag) && !isPassing(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// manyTags are in the store.
var manyTags = tier.Pick(2_000, 1_000_000)

// TestManyTagsCostAWorkerNothing: it starts, and is sent as many messages, as if there were none; and the
// first request for any of them is answered.
func TestManyTagsCostAWorkerNothing(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	js := newJetStream(t, net)
	for i := range manyTags {
		for {
			if _, err := js.PublishAsync(fmt.Sprintf("$KV.ids_register.shop-%07d.order", i), []byte(`{"next":1,"step":1000}`)); err == nil {
				break
			}
		}
		if i%1000 == 999 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
	cfg := configure(t, net, worker.Config{Store: s})
	began := time.Now()
	w, err := worker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, w)
	t.Logf("started in %v beside %d tags", time.Since(began).Round(time.Millisecond), manyTags)
	c := newClient(t, net)
	for i := range 100 {
		if id := c.must(fmt.Sprintf("shop-%07d.order", i*manyTags/100)); id != 1 {
			t.Errorf("tag %d: got %d", i, id)
		}
	}
	if n := cfg.Control.Stats().InMsgs; n > 1000 {
		t.Errorf("%d messages were sent to a worker of which 100 tags were asked", n)
	}
	if n := scrape(t, w)["tags"]; n != 100 {
		t.Errorf("%v tags are in memory, want the 100 that were asked for", n)
	}
}
