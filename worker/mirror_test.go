package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// listed is a store with a listing that the test decides.
type listed struct {
	store.Store

	mu    sync.Mutex
	tags  []store.Tag
	err   error
	calls int
}

func (l *listed) set(err error, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tags, l.err = nil, err
	for _, name := range names {
		l.tags = append(l.tags, store.Tag{Name: name, Step: 100, Next: 1})
	}
}

func (l *listed) Tags(context.Context) ([]store.Tag, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	return slices.Clone(l.tags), l.err
}

// waitRefreshes waits until the store was listed n times more.
func (l *listed) waitRefreshes(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.calls
	}
	from := count()
	natstest.Eventually(t, "the store to be listed", func() bool { return count() >= from+n })
}

// watched returns a logger and what is logged with it from warnings on.
func watched() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	return zap.New(core), logs
}

// count is how many lines begin with a text.
func count(logs *observer.ObservedLogs, text string) int {
	return logs.Filter(func(e observer.LoggedEntry) bool { return strings.HasPrefix(e.Message, text) }).Len()
}

// TestEmptyListingIsNotBelieved: tags are served from memory while the store lists none, and
// afterwards, without one 404. Only after five refreshes are they gone.
func TestEmptyListingIsNotBelieved(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := &listed{Store: newStore(t, net, 1)}
	tags := []string{"order", "invoice", "parcel"}
	s.set(nil, tags...)
	log, logs := watched()
	w := startWorker(t, net, worker.Config{Store: s, TagRefresh: time.Second, Log: log})
	createTags(t, net, s, 100, tags...)
	c := newClient(t, net)
	for _, tag := range tags {
		c.must(tag)
	}
	s.set(nil)
	s.waitRefreshes(t, 4)
	for _, tag := range tags {
		if _, err := c.ask(tag, 1, time.Second); err != nil {
			t.Errorf("%s while the store lists nothing: %v", tag, err)
		}
	}
	expect(t, scrape(t, w), map[string]float64{"tags_held/store": 3, "tag_losses_total/store": 1, "tags_held/directory": 0})
	s.set(nil, tags...)
	s.waitRefreshes(t, 2)
	expect(t, scrape(t, w), map[string]float64{"tags_held/store": 0, "tag_losses_total/store": 1})

	s.set(nil)
	natstest.Eventually(t, "404", func() bool {
		_, err := c.ask("order", 1, time.Second)
		return errors.Is(err, messages.ErrNoTag)
	})
	if n := count(logs, "tags are missing from the store"); n != 2 {
		t.Errorf("%d errors for two empty listings:\n%v", n, logs.All())
	}
}

// TestUnreadableRowKeepsItsTag, once logged, while changes to other tags go through at the
// usual pace and write nothing else.
func TestUnreadableRowKeepsItsTag(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := &listed{Store: newStore(t, net, 1)}
	tags := []string{"order", "invoice", "parcel"}
	s.set(nil, tags...)
	log, logs := watched()
	startWorker(t, net, worker.Config{Store: s, TagRefresh: time.Second, Log: log})
	createTags(t, net, s, 100, tags...)
	c := newClient(t, net)
	for _, tag := range tags {
		c.must(tag)
	}
	s.waitRefreshes(t, 2) // all is quiet
	kv := tagsBucket(t, net)
	revision := func(tag string) uint64 {
		entry, err := kv.Get(t.Context(), tag)
		if err != nil {
			t.Fatalf("%s in the directory: %v", tag, err)
		}
		return entry.Revision()
	}
	order, invoice := revision("order"), revision("invoice")

	unreadable := &store.EntryError{Tag: "order", Err: fmt.Errorf("tag order: %w: max_id is NULL", store.ErrCorrupt)}
	s.set(fmt.Errorf("table t: %w", errors.Join(unreadable)), "invoice", "new") // and parcel is deleted
	began := time.Now()
	s.waitRefreshes(t, 4) // one more for the confirmation
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("4 refreshes within %v, want one a second", took)
	}
	if revision("order") != order || revision("invoice") != invoice {
		t.Error("a tag that had not changed was written again")
	}
	revision("new")
	if _, err := c.ask("order", 1, time.Second); err != nil {
		t.Errorf("the tag of the row: %v", err)
	}
	if _, err := c.ask("parcel", 1, time.Second); !errors.Is(err, messages.ErrNoTag) {
		t.Errorf("the deleted tag: %v, want 404", err)
	}

	// A row whose name is not known may be any tag.
	s.set(fmt.Errorf("%w: biz_tag is NULL", store.ErrCorrupt), "invoice")
	s.waitRefreshes(t, 3)
	if revision("order") != order || revision("new") == 0 {
		t.Error("order was written")
	}
	rows := 0
	for _, line := range logs.All() {
		switch {
		case strings.HasPrefix(line.Message, "tag in the store cannot be served"):
			rows++
		case !strings.HasPrefix(line.Message, "overloaded"): // the machine may be
			t.Errorf("logged %v", line)
		}
	}
	if rows != 2 {
		t.Errorf("%d lines for two rows: %v", rows, logs.All())
	}
}

// TestDirectoryMadeAgainEmpty: a worker keeps its tags when the directory has no trace of them,
// over five refreshes.
func TestDirectoryMadeAgainEmpty(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	loader := startWorker(t, net, worker.Config{Store: s, Role: worker.RoleLoader})
	log, logs := watched()
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, TagRefresh: time.Second, Log: log})
	createTags(t, net, s, 100, "order", "invoice")
	c := newClient(t, net)
	c.must("order")
	c.must("invoice")
	if err := loader.Stop(); err != nil { // nobody mirrors the store
		t.Fatal(err)
	}
	js := newJetStream(t, net)
	if err := js.DeleteKeyValue(t.Context(), worker.TagsBucketName(messages.DefaultPrefix)); err != nil {
		t.Fatal(err)
	}
	if err := worker.Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the worker to hold its tags", func() bool {
		return scrape(t, w)["tags_held/directory"] == 2
	})
	if _, err := c.ask("order", 1, time.Second); err != nil {
		t.Errorf("from memory: %v", err)
	}
	natstest.Eventually(t, "404", func() bool {
		_, err := c.ask("order", 1, time.Second)
		return errors.Is(err, messages.ErrNoTag)
	})
	if n := count(logs, "tags are missing from the directory"); n != 1 {
		t.Errorf("%d errors: %v", n, logs.All())
	}
}
