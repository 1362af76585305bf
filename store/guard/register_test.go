package guard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/guard"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
)

const (
	prefix  = messages.Prefix("ids")
	tables  = messages.Prefix("tables") // a store that stands for a database
	numTags = 5

	// The others are not asked for any more when the damage is done.
	busyTags = 3
)

func tag(n int) string { return fmt.Sprintf("tag%d", n) }

// place is an installation on a server, of one of two kinds.
type place struct {
	srv    *natstest.Server
	ledger bool // a ledger in front of a store
	idle   *atomic.Bool
	pause  time.Duration // of a loader between two calls for a tag

	// Held by those who reserve, and by who takes a snapshot: one that is taken while a key is
	// written may have neither its old value nor the new one.
	gate *sync.RWMutex
}

// newPlace makes an installation with tags on a server of its own.
func newPlace(t *testing.T, withLedger bool, pause time.Duration) place {
	t.Helper()
	p := place{natstest.Start(t), withLedger, new(atomic.Bool), pause, new(sync.RWMutex)}
	admin := p.open(t)
	for n := range numTags {
		if err := admin.CreateTag(t.Context(), store.Tag{Name: tag(n), Step: 10, Next: 1}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p place) js(t *testing.T) jetstream.JetStream {
	t.Helper()
	return natstest.JetStream(t, p.srv.Connect(t))
}

// register is the stream of the register.
func (p place) register() string {
	if p.ledger {
		return "KV_" + ledger.BucketName(prefix)
	}
	return "KV_" + jetstreamstore.BucketName(prefix)
}

// open opens the store as another process would.
func (p place) open(t *testing.T) store.Store {
	t.Helper()
	js := p.js(t)
	if !p.ledger {
		return counters(t, js, prefix)
	}
	if err := agreement.Bucket(prefix, 1).Ensure(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Create(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	s := ledger.New(counters(t, js, tables), ledger.Config{JetStream: js, Prefix: prefix})
	if _, err := s.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func counters(t *testing.T, js jetstream.JetStream, prefix messages.Prefix) store.Store {
	t.Helper()
	if err := jetstreamstore.Create(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := jetstreamstore.Open(t.Context(), js, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// loader reserves all the time, as a process does, until the test ends.
type loader struct {
	*guard.Guard
	logs *observer.ObservedLogs
	stop func()
}

func (p place) loader(t *testing.T, granted *storetest.Ledger) loader {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	g := guard.New(p.open(t), "test", zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { g.Run(ctx) })
	for n := range numTags {
		group.Go(func() {
			for step := int64(1); ctx.Err() == nil; step = step%7 + 1 {
				if n >= busyTags && p.idle.Load() {
					return
				}
				call, done := context.WithTimeout(ctx, 3*time.Second)
				p.gate.RLock()
				seg, err := g.Reserve(call, tag(n), step)
				p.gate.RUnlock()
				done()
				if err == nil {
					granted.Add(tag(n), step, seg)
				}
				time.Sleep(p.pause)
			}
		})
	}
	stop := func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return loader{g, logs, stop}
}

// A register that is put back, or made again, while loaders live that watched it: it is
// noticed, everything is raised, and no ID is granted twice, whatever the register and the store
// say, also not by a loader that is started afterwards.
func TestRegisterThatWentBack(t *testing.T) {
	restore := func(t *testing.T, p place, old natstest.Snapshot) { old.Restore(t, p.srv.Connect(t)) }
	for name, c := range map[string]struct {
		ledger bool
		damage func(t *testing.T, p place, old natstest.Snapshot)
	}{
		"jetstream restored":   {false, restore},
		"jetstream made again": {false, func(t *testing.T, p place, _ natstest.Snapshot) { p.makeAgain(t) }},
		"ledger restored":      {true, restore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, c.ledger, 2*time.Millisecond)
			var granted storetest.Ledger
			one, two := p.loader(t, &granted), p.loader(t, &granted)
			more(t, &granted, 100)
			p.gate.Lock()
			old := natstest.TakeSnapshot(t, p.srv.Connect(t), p.register())
			p.gate.Unlock()
			more(t, &granted, 100)
			p.idle.Store(true)
			more(t, &granted, 50)

			c.damage(t, p, old)
			for _, l := range []loader{one, two} {
				natstest.Eventually(t, "a loader to notice, and to restore the register", func() bool {
					return l.Figures().Register > 0 && l.logs.FilterMessageSnippet("is restored").Len() > 0
				})
			}
			more(t, &granted, 50)
			three := p.loader(t, &granted)
			more(t, &granted, 50)
			for _, l := range []loader{one, two, three} {
				l.stop()
			}
			granted.Check(t)
			for _, l := range []loader{one, two, three} {
				if n := l.logs.FilterMessageSnippet("register of what was granted went back").Len(); n != int(l.Figures().Register) {
					t.Errorf("%d lines say that the register went back, want %d", n, l.Figures().Register)
				}
			}
			if f := three.Figures(); f != (guard.Figures{}) {
				t.Errorf("the last loader says that something went back: %+v", f)
			}
			expectRaised(t, p.open(t), &granted)
		})
	}
}

// expectRaised makes sure that somebody without a memory gets what lies above.
func expectRaised(t *testing.T, s store.Store, granted *storetest.Ledger) {
	t.Helper()
	for n := range numTags {
		seg, err := s.Reserve(t.Context(), tag(n), 1)
		if err != nil || seg.First < granted.End(tag(n)) {
			t.Errorf("%s: %v, %v, and all below %d was granted", tag(n), seg, err, granted.End(tag(n)))
		}
	}
}

// makeAgain deletes the register's bucket and makes an empty one.
func (p place) makeAgain(t *testing.T) {
	t.Helper()
	js := p.js(t)
	if err := js.DeleteStream(t.Context(), p.register()); err != nil {
		t.Fatal(err)
	}
	bucket := jetstreamstore.BucketName(prefix)
	if p.ledger {
		bucket = ledger.BucketName(prefix)
	}
	natstest.CreateBucket(t, js, bucket) // somebody does; Ensure would not
}

// more waits until n more ranges were granted.
func more(t *testing.T, granted *storetest.Ledger, n int) {
	t.Helper()
	target := granted.Len() + n
	natstest.Eventually(t, "grants", func() bool { return granted.Len() >= target })
}

// In a register that does what it should nothing seems to have gone back.
func TestNothingWentBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false, 0)
	var granted storetest.Ledger
	loaders := []loader{p.loader(t, &granted), p.loader(t, &granted)}
	more(t, &granted, 300)
	p.srv.Restart()
	more(t, &granted, 100)
	for _, l := range loaders {
		l.stop()
		if f := l.Figures(); f != (guard.Figures{}) {
			t.Errorf("something went back: %+v, %v", f, l.logs.All())
		}
	}
	granted.Check(t)
}
