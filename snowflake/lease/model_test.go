package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/tier"
)

// narrow has two worker IDs, so that a process always waits.
var narrow = func() snowflake.Layout {
	l, err := snowflake.NewLayout(snowflake.LayoutSpec{
		Epoch: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), Unit: time.Millisecond, Time: 53, Worker: 1, Sequence: 9,
	})
	if err != nil {
		panic(err)
	}
	return l
}()

const modelTTL = 30 * time.Second

// world is the shared state of all processes of a run.
type world struct {
	workers, clocks, config *fakeStore
	layout                  snowflake.Layout
	neighbors               neighbors

	mu     sync.Mutex
	used   map[*snowflake.Generator]span
	copies []ownedTime
	ranges []snowflake.IDRange // scratch
	ids    int64
	holds  int64
	losses int64
	wrong  []string
}

func newWorld() *world {
	return &world{
		workers: newFakeStore(modelTTL), clocks: newFakeStore(0), config: newFakeStore(0),
		layout:    narrow,
		neighbors: neighbors{uses: make(map[*useLog]*fakeNet)},
		used:      make(map[*snowflake.Generator]span),
	}
}

// span is the first and the last ID of a holder.
type span struct{ first, last snowflake.ID }

// ownedTime is time of a worker ID that a holder owned, or had requested, when
// it was copied: from the last timestamp used up to its hi. Both may issue
// there, because they do not know of each other yet.
type ownedTime struct{ worker, from, to int64 }

// overlaps names the holders of a worker ID that did not follow each other: not
// only IDs must differ, but all the time from a holder's first to its last is
// its own, except in the owned time of copies.
func (w *world) overlaps() (wrong []string) {
	byWorker := make(map[int64][]span)
	for _, s := range w.used {
		worker := w.layout.WorkerID(s.first)
		byWorker[worker] = append(byWorker[worker], s)
	}
	for worker, spans := range byWorker {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
		for i, s := range spans {
			for _, before := range spans[:i] {
				from, to := w.layout.Timestamp(s.first), w.layout.Timestamp(min(s.last, before.last))
				if from > to || w.copied(worker, from, to) {
					continue
				}
				wrong = append(wrong, fmt.Sprintf("worker ID %d: one holder issues from %v to %v, another from %v to %v", worker,
					w.layout.Time(before.first), w.layout.Time(before.last), w.layout.Time(s.first), w.layout.Time(s.last)))
			}
		}
	}
	return wrong
}

// copied reports whether all the time from from to to, both included, lies in
// owned time of copies.
func (w *world) copied(worker, from, to int64) bool {
	for from <= to {
		i := slices.IndexFunc(w.copies, func(c ownedTime) bool { return c.worker == worker && c.from <= from && from < c.to })
		if i < 0 {
			return false
		}
		from = w.copies[i].to
	}
	return true
}

// process is a process with a clock of its own.
type process struct {
	w     *world
	name  string
	net   *fakeNet
	skew  time.Duration // MaxClockSkew
	ahead time.Duration
	given *int64 // the worker ID that it is given, if any

	others *fakeOthers

	clockMu sync.RWMutex
	off     time.Duration

	mu   sync.Mutex
	gens []*snowflake.Generator // all it ever had, the present generator last
	held bool

	running  atomic.Pointer[Manager]
	original *process // the process that was copied, on the same host; or nil
}

func (w *world) process(name string, seed uint64) *process {
	p := &process{w: w, name: name, skew: 5 * time.Second, ahead: time.Second}
	p.net = &fakeNet{ttl: modelTTL, rng: rand.New(rand.NewPCG(seed, 1)), clocks: w.clocks, leases: w.workers, asked: make(map[string]int64)}
	p.others = &fakeOthers{p.net, &w.neighbors, make(chan nats.Status, 1)}
	return p
}

func (p *process) now() int64 {
	if p.original != nil {
		return p.original.now()
	}
	p.clockMu.RLock()
	defer p.clockMu.RUnlock()
	return p.readClock()
}

func (p *process) readClock() int64 { return time.Now().Add(p.off).UnixNano() }

func (p *process) setClock(off time.Duration) {
	p.clockMu.Lock()
	defer p.clockMu.Unlock()
	p.off = off
}

func (p *process) manager() *Manager {
	cfg := Config{
		Layout: p.w.layout, Instance: p.name, TTL: modelTTL, Worker: p.given,
		MaxAhead: p.ahead, MaxClockSkew: p.skew, Clock: p.now, Log: zap.NewNop(),
	}
	return newManager(cfg, link{p.w.workers, p.net}, link{p.w.clocks, p.net}, link{p.w.config, p.net}, p.net, p.others)
}

func (p *process) notify(s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if errors.Is(s.Err, ErrClockLost) {
		p.w.wrong = append(p.w.wrong, s.Err.Error())
	}
	if s.Generator != nil {
		p.gens = append(p.gens, s.Generator)
		p.w.holds++
	} else if p.held {
		p.w.losses++
	}
	p.held = s.Generator != nil
}

// holding is the generator of a process that has a worker ID, or nil.
func (p *process) holding() *snowflake.Generator {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		return nil
	}
	return p.gens[len(p.gens)-1]
}

// issue takes n IDs from a generator of this process, including old generators,
// and checks the promises.
func (p *process) issue(rng *rand.Rand, n int64) {
	p.mu.Lock()
	if len(p.gens) == 0 {
		p.mu.Unlock()
		return
	}
	g := p.gens[len(p.gens)-1-rng.IntN(min(2, len(p.gens)))]
	p.mu.Unlock()
	p.w.issue(g, n, p.now, p.ahead)
}

func (w *world) issue(g *snowflake.Generator, n int64, now snowflake.Clock, ahead time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := now()
	ranges, err := g.NextN(w.ranges[:0], n)
	if err != nil {
		return
	}
	after := now()
	w.ranges, w.ids = ranges, w.ids+n
	first, last := ranges[0].First, ranges[len(ranges)-1].Last
	s, known := w.used[g]
	if !known {
		s.first = first
	} else if first <= s.last {
		w.wrong = append(w.wrong, fmt.Sprintf("%d after %d", first, s.last))
	}
	w.used[g] = span{s.first, last}
	limit := time.Unix(0, max(before, after)).Add(ahead)
	if at := w.layout.Time(last); at.After(limit) {
		w.wrong = append(w.wrong, fmt.Sprintf("%v is %v further ahead than allowed", at, at.Sub(limit)))
	}
}

// live is a process that is started, stopped and killed until ctx ends.
func (p *process) live(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		p.net.set(func() { p.net.dead = false })
		run, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		m := p.manager()
		p.running.Store(m)
		go func() {
			defer close(done)
			_ = m.Run(run, p.notify)
		}()
		pause.For(ctx, time.Duration(rng.Int64N(int64(8*time.Minute))))
		if rng.IntN(2) == 0 && ctx.Err() == nil {
			// It is cut off, and serves on for a while.
			p.net.set(func() { p.net.dead = true })
			pause.For(ctx, time.Duration(rng.Int64N(int64(2*modelTTL))))
		}
		if rng.IntN(2) == 0 {
			p.issue(rng, 400_000) // the successor finds hi ahead of its clock
		}
		stop()
		<-done
		p.mu.Lock()
		p.held = false
		p.mu.Unlock()
		pause.For(ctx, time.Duration(rng.Int64N(int64(time.Minute))))
	}
}

// request takes IDs at random moments.
func (p *process) request(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		n := int64(1)
		if rng.IntN(30) == 0 {
			n = 1 + rng.Int64N(400_000) // up to 800 ms of IDs at once
		}
		p.issue(rng, n)
		pause.For(ctx, time.Duration(rng.Int64N(int64(5*time.Second))))
	}
}

// step sets the clock now and then.
func (p *process) step(ctx context.Context, rng *rand.Rand) {
	steps := []time.Duration{time.Second, time.Hour, 24 * time.Hour}
	for ctx.Err() == nil {
		pause.For(ctx, time.Duration(rng.Int64N(int64(5*time.Minute))))
		d := steps[rng.IntN(len(steps))]
		switch rng.IntN(4) {
		case 0:
			p.setClock(d)
		case 1:
			p.setClock(-d)
		default:
			p.setClock(0)
		}
	}
}

// TestNoDuplicateWhateverHappens: processes share two worker IDs, and are
// stopped, killed, cut off, paused, and copied in the middle of calls. Requests
// and answers are lost, late and doubled; reads are old; leases expire early,
// and their TTL changes. Buckets elect leaders for longer than a short TTL;
// clocks are set by a second, an hour, a day. In some runs, each worker ID is
// configured for two processes. Holders of a worker ID always own disjoint
// time, except for the time of a copied holder at that moment. None is further
// ahead of its clock than allowed.
func TestNoDuplicateWhateverHappens(t *testing.T) {
	t.Parallel()
	runs, first := tier.Seeds(20, 1000), firstSeed(t)
	var ids, holds, losses atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		const lanes = 2
		for lane := range uint64(lanes) {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := first + lane; seed < first+runs && !t.Failed(); seed += lanes {
					synctest.Test(t, func(t *testing.T) {
						w := chaos(t, seed)
						ids.Add(w.ids)
						holds.Add(w.holds)
						losses.Add(w.losses)
					})
					if t.Failed() {
						t.Logf("IDWORKER_SEED=%d", seed)
					}
				}
			})
		}
	})
	t.Logf("%d runs: %d IDs, %d holders, %d losses", runs, ids.Load(), holds.Load(), losses.Load())
	if n := int64(runs); holds.Load() < 6*n || losses.Load() < 2*n || ids.Load() < 10_000*n {
		t.Error("too little has happened")
	}
}

// firstSeed is the first of the seeds, from IDWORKER_SEED, or 0.
func firstSeed(t *testing.T) uint64 {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("IDWORKER_SEED"), "0"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	return seed
}

func chaos(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	outage := time.Duration(0)
	if seed%4 > 1 {
		outage = []time.Duration{time.Minute, 5 * time.Minute}[rng.IntN(2)]
		w.declare(outage.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	life, calm := context.WithCancel(ctx)
	var all []*process
	var wg sync.WaitGroup
	for i := range 4 {
		p := w.process(fmt.Sprint(i), rng.Uint64())
		p.net.rate = []float64{0, 0.01, 0.05}[rng.IntN(3)]
		p.net.slow = rng.IntN(2) == 0
		if seed%2 == 0 {
			p.skew = 100 * 365 * 24 * time.Hour // anything goes
		}
		if seed%3 == 0 {
			p.given = new(int64(i % 2)) // two have each
		}
		all = append(all, p)
		for _, f := range []func(context.Context, *rand.Rand){p.live, p.request, p.step} {
			own := rand.New(rand.NewPCG(rng.Uint64(), 2))
			wg.Go(func() { f(life, own) })
		}
	}
	for _, p := range all {
		p.copyAtRandom(life, &wg, rand.New(rand.NewPCG(rng.Uint64(), 4)))
	}
	expire := rand.New(rand.NewPCG(rng.Uint64(), 3))
	wg.Go(func() {
		for life.Err() == nil {
			pause.For(life, time.Duration(expire.Int64N(int64(4*time.Minute))))
			w.workers.expire(fmt.Sprint(expire.IntN(2)))
			if expire.IntN(4) == 0 {
				w.workers.setLifetime([]time.Duration{modelTTL / 6, modelTTL}[expire.IntN(2)])
			}
		}
	})
	elections := rand.New(rand.NewPCG(rng.Uint64(), 8))
	wg.Go(func() { w.elect(life, elections, 20*time.Second+outage) })
	pause.For(ctx, 12*time.Minute)
	calm()
	wg.Wait()
	if seed%2 == 1 {
		recovers(t, ctx, w, all, outage)
	}
	cancel()
	time.Sleep(4 * modelTTL) // late messages arrive
	for _, problem := range append(w.wrong, w.overlaps()...) {
		t.Error(problem)
	}
	return w
}

// elect leaves a bucket, or both, without a leader now and then, for longer
// than a short TTL.
func (w *world) elect(ctx context.Context, rng *rand.Rand, longest time.Duration) {
	for ctx.Err() == nil {
		pause.For(ctx, time.Duration(rng.Int64N(int64(2*time.Minute))))
		which := 1 + rng.IntN(3)
		w.workers.setLeaderless(which&1 > 0)
		w.clocks.setLeaderless(which&2 > 0)
		pause.For(ctx, time.Duration(rng.Int64N(int64(longest))))
		w.workers.setLeaderless(false)
		w.clocks.setLeaderless(false)
	}
}

// recovers expects both worker IDs to be in use again, once all faults have
// ended: with a check of the clocks, neither can have been reserved further ahead
// than a fence is long.
func recovers(t *testing.T, ctx context.Context, w *world, all []*process, outage time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, p := range all {
		p.setClock(0)
		p.net.set(func() { p.net.rate, p.net.dead = 0, false })
		wg.Go(func() { _ = p.manager().Run(ctx, p.notify) })
	}
	pause.For(ctx, 3*modelTTL+outage)
	held := 0
	for _, p := range all {
		if g := p.holding(); g != nil {
			held++
			w.issue(g, 1, p.now, p.ahead)
			if g.Last() < w.layout.TimestampAt(time.Now()) {
				t.Errorf("process %s holds a worker ID and issues nothing", p.name)
			}
		}
	}
	if held != 2 {
		t.Errorf("all is well, but %d worker IDs of 2 are held", held)
		for _, r := range w.clocks.list() {
			t.Logf("%v: %s = %s", time.Now(), r.key, r.value)
		}
	}
	cancel()
	wg.Wait()
}
