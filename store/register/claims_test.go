package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

// rememberer is a worker as far as the register is concerned: it requests ranges
// from any loader, and remembers what it was granted.
type rememberer struct {
	by string

	mu    sync.Mutex
	known store.Claim
	next  map[string]int64 // above all that it was granted, by tag
	full  bool             // its buffer: it requests nothing
}

// claim is the claim in its load of a tag; without a tag, that in its answer.
func (r *rememberer) claim(tag string) store.Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.known
	if c.By = r.by; !c.IsZero() && tag != "" {
		c.Tag, c.Next = tag, r.next[tag]
	}
	return c
}

// take requests a range of a tag.
func (r *rememberer) take(ctx context.Context, s *Register, tag string, n int64) (store.Segment, error) {
	got, err := s.Reserve(ctx, tag, []store.Want{{Step: n, Waiting: n, Most: n, Claim: r.claim(tag)}})
	if err != nil {
		return store.Segment{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got.Line.Floor > r.known.Floor {
		r.known = store.Claim{Floor: got.Line.Floor}
	}
	if got.Line.Floor == r.known.Floor {
		r.known.Sequence = max(r.known.Sequence, got.Line.Sequence)
	}
	r.next[tag] = max(r.next[tag], got.Parts[0].End)
	return got.Parts[0], nil
}

// cutOff is the way to a server that may be cut.
type cutOff struct {
	remote
	cut atomic.Bool
}

func (c *cutOff) wait(ctx context.Context) error {
	if c.cut.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (c *cutOff) poll(ctx context.Context) (guard.Poll, error) {
	if err := c.wait(ctx); err != nil {
		return guard.Poll{}, err
	}
	return c.remote.poll(ctx)
}

func (c *cutOff) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	if err := c.wait(ctx); err != nil {
		return 0, err
	}
	return c.remote.update(ctx, tag, value, revision)
}

func (c *cutOff) read(ctx context.Context, tag string) (storedEntry, error) {
	if err := c.wait(ctx); err != nil {
		return storedEntry{}, err
	}
	return c.remote.read(ctx, tag)
}

// askFor is how long a loader waits for answers in these tests.
const askFor = 3 * time.Second

// asking returns what a loader asks: all workers and the other loaders, every
// half second.
func asking(s *Register, workers []*rememberer, loaders func() []*Register) func(context.Context) error {
	return func(ctx context.Context) error {
		for began := time.Now(); time.Since(began) < askFor && ctx.Err() == nil; time.Sleep(askFor / 6) {
			for _, w := range workers {
				s.Hear(ctx, w.claim(""))
			}
			for n, other := range loaders() {
				for _, c := range other.Claims() {
					if c.By == "" {
						c.By = fmt.Sprint("loader ", n)
					}
					if other != s {
						s.Hear(ctx, c)
					}
				}
			}
		}
		return ctx.Err()
	}
}

// TestLoadersForget: the register goes back, and all loaders are restarted without
// any memory, at once or one after the other, twice, but for one that was cut off
// when the lost writes were made. One worker that answers in time is enough for
// nothing to be granted twice; and after a raise, all is granted again.
func TestLoadersForget(t *testing.T) {
	t.Parallel()
	for seed := range tier.Seeds(30, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { loadersForget(t, seed) })
		})
	}
}

func loadersForget(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 5))
	w := newWorld(t, seed, int(seed%3))
	var granted order.Ledger
	var workers []*rememberer
	for n := range 2 + seed%2 {
		workers = append(workers, &rememberer{by: fmt.Sprint("worker ", n), next: make(map[string]int64)})
	}
	var mu sync.Mutex
	loaders, ends := make([]*Register, 1+seed%3), make([]func(), 1+seed%3)
	ways := make([]*cutOff, len(loaders))
	lonely := -1 // the loader that is cut off
	if len(loaders) > 1 && seed%4 > 1 {
		lonely = 0
	}
	live := func() []*Register {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Clone(loaders), func(s *Register) bool { return s == nil })
	}
	start := func(n int) {
		s := w.loader(n)
		way := &cutOff{remote: s.remote}
		s.remote, ways[n] = way, way
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		mu.Lock()
		loaders[n], ends[n] = s, func() { cancel(); group.Wait() }
		mu.Unlock()
		group.Go(func() { s.Run(ctx, asking(s, workers, live)) })
		for g, worker := range workers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(100*n+g)))
				for ctx.Err() == nil {
					select {
					case <-s.Asked():
					case <-ctx.Done():
						return
					}
					worker.mu.Lock()
					full := worker.full
					worker.mu.Unlock()
					tag := tags[random.IntN(len(tags))]
					call, cancel := context.WithTimeout(ctx, askFor)
					seg, err := store.Segment{}, errLost
					if !full && !way.cut.Load() {
						seg, err = worker.take(call, s, tag, 1+random.Int64N(20))
					}
					cancel()
					if err != nil {
						time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
						continue
					}
					granted.AddSegment(tag, seg.Len(), seg)
				}
			})
		}
	}
	for n := range loaders {
		start(n)
	}
	time.Sleep(10 * time.Second)
	w.server.save()
	if lonely >= 0 {
		ways[lonely].cut.Store(true)
	}
	saved := w.server.older[0].now.Last
	for time.Sleep(10 * time.Second); workers[0].claim("").Sequence <= saved; { // it was granted one that will be lost
		time.Sleep(time.Second)
	}
	w.server.putBack(0, 2*time.Second, true)
	time.Sleep(guard.PollEvery + 2*pollTimeout) // what was in flight has ended
	for n, worker := range workers {            // all but one are restarted
		worker.mu.Lock()
		if worker.full = n == 0; n > 0 {
			worker.known, worker.next = store.Claim{}, make(map[string]int64)
		}
		worker.mu.Unlock()
	}
	for range 2 {
		together := random.IntN(2) == 0
		for n := range loaders {
			if n == lonely {
				ways[n].cut.Store(false)
				continue
			}
			ends[n]()
			if !together {
				start(n)
				time.Sleep(time.Duration(random.Int64N(int64(2 * askFor))))
			}
		}
		for n := range loaders {
			if together && n != lonely {
				start(n)
			}
		}
		time.Sleep(time.Duration(random.Int64N(int64(4 * askFor))))
	}
	before := granted.Len()
	time.Sleep(time.Minute)
	if n := granted.Len() - before; n > 0 {
		t.Errorf("seed %d: %d ranges were granted before the raise", seed, n)
	}
	w.server.decide(1_000_000, w.tables...)
	workers[0].mu.Lock()
	workers[0].full = false
	workers[0].mu.Unlock()
	for n, s := range loaders {
		for tries, had := 0, s.Figures().Granted; s.Figures().Granted == had; tries++ {
			if tries == 300 {
				t.Errorf("seed %d: loader %d grants nothing for five minutes after the raise: %v", seed, n, s.Stopped())
				break
			}
			time.Sleep(time.Second)
		}
	}
	for _, end := range ends {
		end()
	}
	granted.Check(t)
}

// running returns a loader that runs until end.
func (w *world) running(ask func(context.Context) error) (s *Register, end func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	s = w.loader(0)
	group.Go(func() { s.Run(ctx, ask) })
	return s, func() { cancel(); group.Wait() }
}

// TestProofIsLeft: a loader that has seen the register go back leaves proof of it
// for the loaders after it, however far the register has come by then. The proof
// ends with a decision, and is left only once the fault has lasted.
func TestProofIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		first, end := w.running(nil)
		w.server.save()
		for range 10 {
			if _, err := storetest.Reserve(t.Context(), first, "a", 10); err != nil {
				t.Fatal(err)
			}
		}
		w.server.putBack(0, 0, false)
		time.Sleep(guard.Suspicion - 2*time.Second)
		if left, _ := w.server.proof(t.Context()); left != nil || first.Stopped() == nil {
			t.Errorf("left too early: %+v, stopped: %v", left, first.Stopped())
		}
		w.server.mu.Lock()
		w.server.now.Last += 1000 // by a loader that has seen nothing
		w.server.mu.Unlock()
		time.Sleep(10 * time.Second)
		if seen := first.seen(); seen.Proof == nil {
			t.Errorf("the witness would note %+v, without proof", seen)
		}
		end()
		silence := func(context.Context) error { return nil } // from all others
		second, end := w.running(silence)
		defer end()
		<-second.Asked()
		if _, err := storetest.Reserve(t.Context(), second, "a", 10); !errors.Is(err, store.ErrRegressed) || second.Stopped() == nil {
			t.Errorf("a loader without a memory: %v", err)
		}
		w.server.decide(1000)
		time.Sleep(2 * guard.PollEvery)
		third, end := w.running(silence)
		defer end()
		<-third.Asked()
		if seg, err := storetest.Reserve(t.Context(), third, "a", 10); err != nil || seg.First < 1000 {
			t.Errorf("after a raise: %v, %v", seg, err)
		}
	})
}

// TestWrongServerLeavesNothing: a server that shows an older copy for half a
// minute leaves nothing that stops the right one.
func TestWrongServerLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		first, end := w.running(nil)
		w.server.save()
		if _, err := storetest.Reserve(t.Context(), first, "a", 10); err != nil {
			t.Fatal(err)
		}
		w.server.save()
		w.server.putBack(0, 0, true)
		time.Sleep(30 * time.Second)
		w.server.putBack(1, 0, true)
		w.server.mu.Lock()
		w.server.left = nil // it was on the other server
		w.server.mu.Unlock()
		time.Sleep(time.Minute)
		if left, _ := w.server.proof(t.Context()); left != nil || first.seen().Proof != nil {
			t.Errorf("left %+v, and noted %+v", left, first.seen())
		}
		end()
		if seg, err := storetest.Reserve(t.Context(), w.loader(0), "a", 10); err != nil || seg.First != 11 {
			t.Errorf("%v, %v", seg, err)
		}
	})
}

// TestLoadsTellOfEntries: a register has grown past all sequences that a worker
// was granted. The load of a tag shows that its entry went back, and stops all
// tags.
func TestLoadsTellOfEntries(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := &rememberer{by: "w", next: make(map[string]int64)}
	first := handle(t, connect(t, s.srv))
	s.create(first, "order")
	s.create(first, "other")
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	for range 3 {
		if _, err := w.take(t.Context(), first, "order", 10); err != nil {
			t.Fatal(err)
		}
	}
	older.Restore(t, s.conn)
	second := s.loader(connect(t, s.srv))
	for range 10 {
		s.reserve(second, "other", 1)
	}
	if seg, err := w.take(t.Context(), second, "order", 10); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("%v, %v", seg, err)
	}
	var wrong *store.RegressionError
	if errors.As(second.Stopped(), &wrong); wrong == nil || wrong.Claim.By != "w" || wrong.Claim.Tag != "order" || wrong.Claim.Next != 31 {
		t.Errorf("stopped: %+v", wrong)
	}
	// Others hear of it from the loader, and check it themselves.
	third := s.loader(connect(t, s.srv))
	for _, c := range second.Claims() {
		third.Hear(t.Context(), c)
	}
	s.awaitStop(third)
	if claims := third.Claims(); len(claims) != 1 || !claims[0].Heard && claims[0].By != "" {
		t.Errorf("what was only repeated is repeated again: %+v", claims)
	}
	s.raise(1000)
	for _, h := range []*Register{second, third} {
		s.awaitStart(h)
		if _, err := w.take(t.Context(), h, "order", 10); err != nil {
			t.Error(err)
		}
	}
}

// TestAsksFirst: nothing is granted before all others were asked.
func TestAsksFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create(handle(t, connect(t, s.srv)), "order")
	h := handle(t, connect(t, s.srv))
	asked, answered := make(chan struct{}), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx, func(ctx context.Context) error {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case err := <-answered:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	defer func() { cancel(); <-done }()
	refused := func(when string) {
		t.Helper()
		if seg, err := storetest.Reserve(t.Context(), h, "order", 10); !errors.Is(err, store.ErrRegressed) {
			t.Errorf("%s: %v, %v", when, seg, err)
		}
	}
	<-asked
	refused("while it asks")
	answered <- errors.New("the list of answers was cut short")
	<-asked
	refused("after a question that failed")
	select {
	case <-h.Asked():
		t.Error("it counts as asked")
	default:
	}
	answered <- nil
	<-h.Asked()
	s.reserve(h, "order", 1)
}

// TestStands: a loader whose witness contradicts the register stands, takes over
// the decision, and grants.
func TestStands(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "witness")
	open := func(stands bool) (*Register, error) {
		cfg := connect(t, s.srv)
		cfg.Stands = stands
		var err error
		// The witness of another process, of which this one has read.
		if cfg.Witness, err = OpenWitness(filepath.Join(t.TempDir(), "own"), path); err != nil {
			return nil, err
		}
		return Open(t.Context(), cfg)
	}
	cfg := connect(t, s.srv)
	cfg.Witness = must(OpenWitness(path))
	first := handle(t, cfg)
	s.create(first, "order")
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	s.reserve(first, "order", 1)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	older.Restore(t, s.conn)
	if _, err := open(false); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("of an administrator: %v", err)
	}
	h, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx, nil) }()
	defer func() { cancel(); <-done }()
	s.awaitStop(h)
	s.raise(1000)
	s.awaitStart(h)
	s.reserve(h, "order", 1000)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestJoinedWitnesses: what two processes have noted counts together, under the
// higher floor.
func TestJoinedWitnesses(t *testing.T) {
	t.Parallel()
	proof := &guard.Proof{ID: "made", Floor: 1000, Seen: 9}
	at := func(first int64, last, entries uint64, p *guard.Proof, decisions ...string) guard.Record {
		return guard.Record{Position: position.Position{ID: "made", Last: last}, First: first, Entries: entries, Proof: p, Decisions: decisions}
	}
	for name, c := range map[string]struct{ a, b, want guard.Record }{
		"one has nothing":     {at(1000, 7, 2, nil, "x"), guard.Record{}, at(1000, 7, 2, nil, "x")},
		"later":               {at(1000, 7, 2, nil, "x"), at(1000, 8, 1, nil, "x"), at(1000, 8, 2, nil, "x")},
		"of another decision": {at(1000, 7, 2, proof, "x"), at(2000, 3, 1, nil, "y"), at(2000, 3, 1, nil, "y", "x")},
		"one has proof":       {at(1000, 7, 2, proof, "x"), at(1000, 8, 1, nil, "x"), at(1000, 8, 2, proof, "x")},
	} {
		for _, got := range []guard.Record{c.a.Join(c.b), c.b.Join(c.a)} {
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}

// TestConfigEmptied: an installation whose settings are gone, with the bucket
// there, is not made anew.
func TestConfigEmptied(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	if err := Create(t.Context(), s.js, prefix, 1); err != nil { // as long as nothing was granted
		t.Fatal(err)
	}
	s.create(h, "order")
	if err := s.js.DeleteKeyValue(t.Context(), agreement.BucketName(prefix)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the bucket is there, and empty", func() bool {
		return kv.Ensure(t.Context(), s.js, agreement.Bucket(prefix, 1)) == nil
	})
	var lost *kv.OlderError
	if err := Create(t.Context(), s.js, prefix, 1); !errors.As(err, &lost) || lost.Key != agreement.InstallationKey {
		t.Errorf("%v", err)
	}
	if err := Record(t.Context(), s.js, prefix); !errors.As(err, &lost) || lost.Key != ConfigKey {
		t.Errorf("the register: %v", err)
	}
}

// TestSettingsWentBack: settings that went back stop a loader whose witness has seen
// more, until a decision. It grants nothing before they were compared, however long
// JetStream does not answer.
func TestSettingsWentBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	config := agreement.BucketName(prefix)
	path := filepath.Join(t.TempDir(), "witness")
	open := func() *Register {
		cfg := connect(t, s.srv)
		cfg.Witness, cfg.Beside, cfg.Stands = must(OpenWitness(path)), []string{config}, true
		return handle(t, cfg)
	}
	s.create(handle(t, connect(t, s.srv)), "order")
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(config))
	settings, err := s.js.KeyValue(t.Context(), config)
	if err == nil {
		_, err = settings.PutString(t.Context(), "a", "b")
	}
	if err == nil {
		err = open().Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	older.Restore(t, s.conn)
	h := open()
	js := &silentAtFirst{JetStream: h.cfg.JetStream, stream: kv.StreamName(config), answers: make(chan struct{})}
	h.cfg.JetStream = js
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { h.Run(ctx, func(context.Context) error { return nil }) })
	natstest.Eventually(t, "it tries again", func() bool { return js.tried.Load() > 1 })
	if seg, err := storetest.Reserve(t.Context(), h, "order", 10); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("before the settings were compared: %v, %v", seg, err)
	}
	close(js.answers)
	natstest.Eventually(t, "it stops", h.hasStopped)
	if wrong := h.stoppedBy(); wrong.Bucket != config {
		t.Errorf("%v", wrong)
	}
	s.raise(1000)
	natstest.Eventually(t, "it takes over the decision", func() bool { return !h.hasStopped() })
}

// silentAtFirst is a JetStream that does not answer about a stream until it is told to.
type silentAtFirst struct {
	jetstream.JetStream
	stream  string
	answers chan struct{}
	tried   atomic.Int64
}

func (s *silentAtFirst) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == s.stream {
		s.tried.Add(1)
		select {
		case <-s.answers:
		default:
			return nil, jetstream.ErrNoStreamResponse
		}
	}
	return s.JetStream.Stream(ctx, name)
}

// TestFullDisk: a witness that cannot be written keeps no loader from starting, nor
// from taking over a decision.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create(handle(t, connect(t, s.srv)), "order")
	cfg := connect(t, s.srv)
	folder := filepath.Join(t.TempDir(), "gone")
	cfg.Witness = must(OpenWitness(filepath.Join(folder, "witness")))
	h := s.loader(cfg)
	s.reserve(h, "order", 1)
	s.raise(1000)
	natstest.Eventually(t, "it takes over the decision", func() bool { return h.Lowest() > 1000 })
	s.reserve(h, "order", 1000)
	s.reserve(s.loader(cfg), "order", 1000)
}

// TestWrongServerIsNotNoted: what another server shows beside its register is not
// noted.
func TestWrongServerIsNotNoted(t *testing.T) {
	t.Parallel()
	right, wrong := newSite(t), newSite(t)
	config := agreement.BucketName(prefix)
	for n, s := range []site{right, wrong} {
		s.create(handle(t, connect(t, s.srv)), "order")
		settings, err := s.js.KeyValue(t.Context(), config)
		for range 10 * n { // it is further on the wrong server
			if err == nil {
				_, err = settings.PutString(t.Context(), "a", "b")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg := connect(t, right.srv)
	cfg.Witness, cfg.Beside = newWitness(t, "witness"), []string{config}
	h := handle(t, cfg)
	before := cfg.Witness.record(config)
	for _, state := range []func(){
		func() { h.remote = &movedAway{h.remote, 1} }, // its connection leads elsewhere
		func() { _ = h.poll(t.Context(), true) },      // which a poll detects
	} {
		state()
		h.cfg.JetStream = wrong.js
		if err := h.note(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := cfg.Witness.record(config); before.Last == 0 || after.Last != before.Last {
			t.Errorf("noted %+v, was %+v", after, before)
		}
	}
}

// movedAway is a remote that has reconnected to a server with another register.
type movedAway struct {
	remote
	times uint64
}

func (m *movedAway) reconnects() uint64 { return m.remote.reconnects() + m.times }

func (m *movedAway) poll(ctx context.Context) (guard.Poll, error) {
	found, err := m.remote.poll(ctx)
	found.ID = "another"
	return found, err
}
