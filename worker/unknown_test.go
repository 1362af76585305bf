package worker_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

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
	if _, err := worker.Provision(t.Context(), worker.Config{JetStream: f.js}); err != nil {
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

// TestFirstUse: a request creates a tag that matches, from 1; other tags are
// unknown. After a restart, its IDs continue above.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "chat.*"})
	begin := func() *worker.Process {
		return startWorker(t, f.net, worker.Config{Store: newStore(t, f.net, 1), StoreName: "jetstream"})
	}
	w := begin()
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
	begin()
	for tag := range last {
		if id := f.client.must(tag); id <= last[tag] || id > 1000 {
			t.Errorf("%s: %d after a restart, %d before", tag, id, last[tag])
		}
	}
}

// TestRemovedTag: workers drop a removed tag. A template recreates it at the
// next request, above its earlier IDs; a different order than before is
// refused, with the reason.
func TestRemovedTag(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "chat.*"})
	s := newStore(t, f.net, 1)
	startWorker(t, f.net, worker.Config{Store: s, StoreName: "jetstream"})
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
}

// TestFieldsOfErrors: an error reply has the values that programs use as fields:
// the largest count, if the worker refuses a count, and the template that is full.
func TestFieldsOfErrors(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "chat.*", MaxTags: 1})
	startWorker(t, f.net, worker.Config{Store: newStore(t, f.net, 1), StoreName: "jetstream", MaxBatch: 500})
	f.client.must("chat.1")
	for _, c := range []struct {
		tag  string
		n    int64
		want messages.Error
	}{
		{"chat.1", 501, messages.Error{Code: messages.CodeMalformed, MaxCount: 500}},
		{"chat.2", 1, messages.Error{Code: messages.CodeBusy, FullTemplate: "chat.*"}}, // parked
		{"chat.2", 1, messages.Error{Code: messages.CodeBusy, FullTemplate: "chat.*"}}, // usually refused as before, at once
		{"chat", 1, messages.Error{Code: messages.CodeNoTag}},
	} {
		var err error
		natstest.Eventually(t, fmt.Sprintf("%#v", c.want), func() bool {
			_, err = f.client.ask(c.tag, c.n)
			return !isPassing(err) || c.want.FullTemplate != "" && errors.Is(err, messages.ErrBusy) && strings.Contains(err.Error(), "is full")
		})
		if reply, ok := errors.AsType[*messages.Error](err); !ok || reply.Code != c.want.Code || reply.MaxCount != c.want.MaxCount || reply.FullTemplate != c.want.FullTemplate {
			t.Errorf("%d of %s: %#v, want %#v", c.n, c.tag, err, c.want)
		}
	}
}

// TestUnknownTag: it is 404. A tag created later is answered within seconds,
// without notifying any worker.
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

// TestManyTagsCostAWorkerNothing: it starts, and receives as many messages, as
// if there were none. The first request for any of them is answered.
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
	w, err := startProcess(t.Context(), cfg)
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
