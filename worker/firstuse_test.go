package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/tagrules"
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

func (s *storeCalls) Reserve(ctx context.Context, tag string, n int64) (store.Segment, error) {
	s.count(tag)
	return s.Store.Reserve(ctx, tag, n)
}

func (s *storeCalls) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	s.count(tag.Name)
	return s.Store.ReserveFirst(ctx, tag, n)
}

// firstUses is an installation with templates.
type firstUses struct {
	*testing.T
	net    worker.Account
	editor *tagrules.Editor
	client client
}

func newFirstUses(t *testing.T) firstUses {
	f := firstUses{T: t, net: worker.NewAccount(t)}
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
	directory, err := worker.OpenDirectory(t.Context(), newJetStream(t, f.net), messages.DefaultPrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := directory.Steps(t.Context()); err != nil || len(steps) != 0 {
		t.Errorf("the directory has %v, %v", steps, err)
	}
}

// TestFullTemplate: made-up names get 429 and never touch the store, and there are never more of them in the
// worker's memory than requests under way. Meanwhile ordinary tags,
// those of other templates and those that are in memory are answered, and after that all that exist are.
func TestFullTemplate(t *testing.T) {
	t.Parallel()
	const most = 20
	names := tier.Pick(3_000, 100_000)
	f := newFirstUses(t)
	f.template(tagrules.Template{Pattern: "chat.*", MaxTags: most})
	f.template(tagrules.Template{Pattern: "room.*"})
	w, _ := f.all()
	for i := range most {
		f.client.must(fmt.Sprint("chat.", i))
	}
	stop(t, w) // so that they are in nobody's memory
	w, calls := f.all()
	createTags(t, f.net, newStore(t, f.net, 1), 100_000, "order")
	f.client.must("order")
	f.awaitRefused(madeUp) // the names in the register are read
	calls.madeUp.Store(0)
	f.awaitID("chat.0") // it is in memory
	busy := make(chan struct{})
	var others sync.WaitGroup
	var rooms int64
	others.Go(func() {
		for {
			select {
			case <-busy:
				return
			default:
			}
			for _, tag := range []string{"order", "chat.0", fmt.Sprint("room.", rooms)} {
				if _, err := f.client.patiently(tag, 1); err != nil {
					t.Errorf("%s, while others make up names: %v", tag, err)
					return
				}
			}
			rooms++
		}
	})
	memory := f.attack(w, names)
	close(busy)
	others.Wait()
	if n := calls.madeUp.Load(); n > 0 {
		t.Errorf("%d calls of the store for made-up names", n)
	}
	if rooms == 0 {
		t.Error("no room was made while names were made up")
	}
	if memory > attackUnderWay+int(rooms)+most {
		t.Errorf("%d tags of templates were in memory at a time", memory)
	}
	if n := worker.FirstUsesInMemory(w); n > int(rooms)+most {
		t.Errorf("%d tags of templates are in memory, %d of them rooms", n, rooms)
	}
	t.Logf("%d rooms were made meanwhile; %d names reached a loader; %d were in memory at most", rooms, worker.Refused(w), memory)
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

// attack asks for that many names that nobody knows, many at a time, all of which have to get 429. It returns
// how many tags of templates the worker had in memory at most.
func (f firstUses) attack(w *worker.Process, names int) (memory int) {
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
		if answered++; answered%100 == 0 {
			memory = max(memory, worker.FirstUsesInMemory(w))
		}
	}
	return memory
}

// TestRemovedFirstUse: a tag of a template that is removed comes back with the next request, above what it
// had; one whose template is removed does not, until that is made again.
func TestRemovedFirstUse(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(tagrules.Template{Pattern: "chat.*"})
	f.all()
	last := f.client.must("chat.1")
	s := newStore(t, f.net, 1)
	directory, err := worker.OpenDirectory(t.Context(), newJetStream(t, f.net), messages.DefaultPrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.RemoveTag(t.Context(), "chat.1"), directory.Remove(t.Context(), "chat.1")); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it is out of memory", func() bool {
		id := f.client.must("chat.1")
		if id <= last {
			t.Fatalf("%d after %d", id, last)
		}
		last = id
		return id > 10
	})
	if _, err := f.editor.RemoveTemplate(t.Context(), "chat.*"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a tag of a removed template is unknown", func() bool {
		ids, err := f.client.patiently("chat.1", 1)
		if err == nil {
			last = ids[0].First
		} else if !errors.Is(err, messages.ErrNoTag) {
			t.Fatal(err)
		}
		return err != nil
	})
	f.template(tagrules.Template{Pattern: "chat.*"})
	if id := f.client.must("chat.1"); id <= last {
		t.Errorf("%d after %d", id, last)
	}
}

// TestMirrorLeavesTemplates: what matches a template is none of the mirror's, whether the store lists it
// or not. All else is mirrored as ever.
func TestMirrorLeavesTemplates(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(tagrules.Template{Pattern: "chat.*"})
	s := newStore(t, f.net, 1)
	createTags(t, f.net, s, 1000, "chat.vip", "gone", "one", "two")
	for range 2 { // the second is about what a new loader reads
		w := startWorker(t, f.net, worker.Config{Store: newStore(t, f.net, 1), StoreName: "jetstream", TagRefresh: time.Second})
		for i := range 20 {
			f.client.must(fmt.Sprint("chat.", i))
		}
		defer func() { _ = w.Stop() }()
	}
	for _, name := range []string{"chat.vip", "gone"} {
		if err := s.RemoveTag(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "later", Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
	directory, err := worker.OpenDirectory(t.Context(), newJetStream(t, f.net), messages.DefaultPrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	var steps map[string]int64
	natstest.Eventually(t, "the store's tags in the directory", func() bool {
		if steps, err = directory.Steps(t.Context()); err != nil {
			t.Fatal(err)
		}
		return steps["later"] > 0 && steps["gone"] == 0
	})
	if len(steps) != 4 || steps["chat.vip"] == 0 {
		t.Errorf("the directory has %v, want chat.vip, one, two and later", steps)
	}
}
