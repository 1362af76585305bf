package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// storeCalls counts the calls of a store that touch a tag.
type storeCalls struct {
	*jetstreamstore.Store
	calls atomic.Int64
}

func (s *storeCalls) Reserve(ctx context.Context, tag string, n int64) (store.Segment, error) {
	s.calls.Add(1)
	return s.Store.Reserve(ctx, tag, n)
}

func (s *storeCalls) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	s.calls.Add(1)
	return s.Store.ReserveFirst(ctx, tag, n)
}

// firstUses is an installation with templates.
type firstUses struct {
	*testing.T
	net    *natstest.Server
	editor *tagrules.Editor
	client client
}

func newFirstUses(t *testing.T) firstUses {
	f := firstUses{T: t, net: natstest.Start(t)}
	js := newJetStream(t, f.net)
	if err := worker.Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.editor, err = tagrules.OpenEditor(t.Context(), js, messages.DefaultPrefix); err != nil {
		t.Fatal(err)
	}
	f.client = newClient(t, f.net)
	return f
}

func (f firstUses) template(t tagrules.Template) {
	f.Helper()
	t.Step, t.Order = 10, tagrules.Trend
	if _, err := f.editor.CreateTemplate(f.Context(), t); err != nil {
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
// unknown. It stays out of the directory. After a restart it goes on above.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(tagrules.Template{Pattern: "chat.*"})
	w, _ := f.all()
	last := make(map[string]int64)
	for i := range 50 {
		tag := fmt.Sprint("chat.", i)
		if last[tag] = f.client.must(tag); last[tag] != 1 {
			t.Errorf("the first ID of %s is %d", tag, last[tag])
		}
	}
	if _, err := f.client.ask("chat", 1, 5*time.Second); !errors.Is(err, messages.ErrNoTag) {
		t.Errorf("a tag that does not match: %v, want ErrNoTag", err)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	f.all()
	for tag := range last {
		if id := f.client.must(tag); id <= last[tag] || id > 1000 {
			t.Errorf("%s: %d after a restart, %d before", tag, id, last[tag])
		}
	}
	directory, err := worker.OpenDirectory(t.Context(), newJetStream(t, f.net), messages.DefaultPrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := directory.Steps(t.Context()); err != nil || len(steps) != 0 {
		t.Errorf("the directory has %v, %v", steps, err)
	}
}

var _ sync.Mutex
