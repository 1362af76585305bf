package allocator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// world is several workers, two loaders and a register, in virtual time. All
// that happens is chosen by the seed: loads and grants are lost, doubled,
// delayed and reordered, loads are sent again, requests expire and are
// withdrawn, workers and loaders crash. In some worlds operators decide: the
// tag goes on above all that was granted, and perhaps in another order. Before
// that, the register may have gone back. Workers learn of it at any time.
type world struct {
	*testing.T

	seed    uint64
	random  *rand.Rand
	order   store.Order
	step    int64
	now     time.Duration
	workers []*member
	loaders [2]worldLoader
	next    int64 // the register
	decides bool  // there are decisions
	floor   int64 // of the latest decision in the register
	decided int64 // of the latest decision
	went    bool  // the register went back since
	doubted int64 // IDs below it may have been granted twice
	loose   bool  // some workers may take a strict tag for trend
	flying  []flight
	grants  []flight
	handed  map[int64]bool
	highest int64
	lazy    bool // workers send replies some time later
	quiet   bool // there are no more faults
	happens []string
}

// member is a worker, from its start to its crash.
type member struct {
	*harness

	name     string
	requests []*worldRequest
	wants    map[uint64]int64 // of the strict loads that were sent
	highest  int64            // that it answered
}

// worldRequest is a request that was not answered yet.
type worldRequest struct {
	allocator.Request

	world    *world
	at       *member
	floor    int64 // the highest ID that had been answered when it was sent
	wanted   bool
	answered int
	err      error
}

// flight is a load or a grant on its way.
type flight struct {
	to    *member
	load  allocator.Load
	s     store.Segment
	order store.Order
	floor int64
	back  bool // it was reserved after the register went back
}

// worldLoader has no loads, or has sent a compare-and-set for their sum.
type worldLoader struct {
	loads   []flight
	expects int64 // of the register
	old     bool  // its grants carry no floor
}

func newWorld(t *testing.T, seed uint64, order store.Order) *world {
	w := &world{T: t, seed: seed, lazy: seed%3 == 0, random: rand.New(rand.NewPCG(seed, 0)), order: order, step: 4, next: 1, handed: map[int64]bool{}}
	if w.decides = seed%8 < 4; w.decides {
		w.floor, w.loaders[0].old = 1, w.chance(30)
	}
	for range 3 {
		w.workers = append(w.workers, w.newMember())
	}
	return w
}

func (w *world) newMember() *member {
	m := &member{harness: newHarness(allocator.Config{MaxStep: 8}), wants: map[uint64]int64{}}
	m.name = fmt.Sprint("worker ", w.random.IntN(1000))
	m.now, m.order, m.step, m.lazy, m.held = w.now, w.order, w.step, w.lazy, true
	w.learn(m, w.floor)
	return m
}

// learn has a worker learn of a decision. The replies that were due are sent.
func (w *world) learn(m *member, floor int64) {
	if floor > m.Floor() {
		w.note("%s learns %d", m.name, floor)
		m.perform()
		m.Learn(floor)
		m.drain()
	}
	behind := func(m *member) bool { return m.Floor() < w.decided }
	w.loose = w.loose && slices.ContainsFunc(w.workers, behind)
}

// decide is what an operator does.
func (w *world) decide() {
	was := w.order
	if w.chance(30) {
		w.order = map[store.Order]store.Order{store.Trend: store.Strict, store.Strict: store.Trend}[was]
	}
	w.loose = w.loose || was == store.Trend
	w.next = max(w.next, w.doubted) + w.random.Int64N(50) + 1
	w.floor, w.decided, w.went = w.next, w.next, false
	w.note("a decision: %s from %d on", w.order, w.floor)
	for _, m := range w.workers {
		for _, r := range m.requests {
			if w.order == store.Trend {
				r.floor = min(r.floor, m.highest)
			}
		}
	}
}

// goBack has the register forget grants, and perhaps decisions.
func (w *world) goBack() {
	w.went, w.doubted = true, max(w.doubted, w.next)
	if !w.loaders[0].old && w.chance(50) {
		w.floor = 1
	}
	w.next = w.floor + w.random.Int64N(w.next-w.floor+1)
	w.note("the register goes back to %d, under %d", w.next, w.floor)
	for _, m := range w.workers {
		for _, r := range m.requests {
			r.floor = 0
		}
	}
}

// promised is the number above which a request is answered that is sent now.
func (w *world) promised(m *member) int64 {
	switch {
	case w.went, w.doubted > 0 && m.Floor() < w.floor:
		return 0
	case w.order == store.Strict && !w.loose:
		return w.highest
	}
	return m.highest
}

func (w *world) note(format string, args ...any) {
	w.happens = append(w.happens, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.Helper()
	for _, h := range w.happens[max(0, len(w.happens)-100):] {
		w.Log(h)
	}
	w.Fatalf("IDWORKER_SEED=%d, %s: %s", w.seed, w.order, fmt.Sprintf(format, args...))
}

// chance is true in so many cases of a hundred.
func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *world) anyone() *member { return w.workers[w.random.IntN(len(w.workers))] }

// request makes a request, which may be answered at once.
func (w *world) request(m *member, n int64, kept bool) *worldRequest {
	r := &worldRequest{Request: allocator.Request{Tag: "order", N: n, Kept: kept}, world: w, at: m, wanted: true, floor: w.promised(m)}
	r.From = r
	w.note("%s: request for %d, kept %t, above %d", m.name, n, kept, r.floor)
	if s, ok := m.Take("order", n); ok {
		w.answer(m, r, []store.Segment{s}, nil)
		return r
	}
	m.requests = append(m.requests, r)
	if ids, err := m.TakeOrPark(r.Request); ids != nil || err != nil {
		w.answer(m, r, ids, err)
	}
	m.drain()
	return r
}

func (r *worldRequest) reply(ids []store.Segment, err error) { r.world.answer(r.at, r, ids, err) }

// answer checks the answer to a request, which its caller receives at once.
func (w *world) answer(m *member, r *worldRequest, ids []store.Segment, err error) {
	w.note("%s: %v, %v for %d above %d", m.name, ids, err, r.N, r.floor)
	r.answered, r.err = r.answered+1, err
	m.requests = slices.DeleteFunc(m.requests, func(o *worldRequest) bool { return o == r })
	total := int64(0)
	for _, s := range ids {
		for id := s.First; id < s.End; id++ {
			if total++; w.handed[id] && id >= w.doubted {
				w.fail("%d was handed out twice", id)
			}
			if id < m.Floor() {
				w.fail("%d was handed out by a worker that has learned %d", id, m.Floor())
			}
			w.handed[id] = true
			if id <= r.floor {
				w.fail("%d answers a request that was sent after %d was answered", id, r.floor)
			}
			w.highest, m.highest = max(w.highest, id), max(m.highest, id)
		}
	}
	switch {
	case r.answered > 1 || !r.wanted && !w.lazy: // else the reply was under way
		w.fail("answered %d times, wanted %t", r.answered, r.wanted)
	case err == nil && total != r.N, err != nil && total > 0:
		w.fail("%v, %v for a request for %d", ids, err, r.N)
	case r.Kept && w.order == store.Strict && !w.loose && err == nil:
		w.fail("%v of a strict tag for a caller that keeps them", ids)
	case errors.Is(err, allocator.ErrStrict) && (!r.Kept || w.order == store.Trend && !w.decides):
		w.fail("%v", err)
	}
}

// send sends the load that a worker wants, if any.
func (w *world) send(m *member) (sent bool) {
	l, ok := m.Send()
	if !ok {
		return false
	}
	w.note("%s: load %d for %d", m.name, l.Seq, l.Want)
	if want, sent := m.wants[l.Seq]; l.Step == 0 && sent && want != l.Want {
		w.fail("load %d is for %d, and was for %d", l.Seq, l.Want, want)
	}
	m.wants[l.Seq] = l.Want
	w.flying = append(w.flying, flight{to: m, load: l})
	return true
}

// pick takes a random flight, or a copy of it.
func (w *world) pick(flights *[]flight) (f flight, ok bool) {
	if len(*flights) == 0 {
		return f, false
	}
	i := w.random.IntN(len(*flights))
	f = (*flights)[i]
	if w.quiet || !w.chance(20) {
		*flights = slices.Delete(*flights, i, i+1)
	}
	return f, true
}

// work is the next step of a loader. It takes loads that have arrived, and
// sends a compare-and-set for their sum. If that is refused, it reads the
// register and retries; else it sends the grants.
func (w *world) work(l *worldLoader) {
	if len(l.loads) == 0 {
		for more := true; more; more = w.chance(60) {
			if f, ok := w.pick(&w.flying); ok {
				l.loads = append(l.loads, f)
			}
		}
		return
	}
	if l.expects != w.next {
		l.expects = w.next
		return
	}
	for _, f := range l.loads {
		n := w.size(f.load)
		if w.chance(5) && !w.quiet {
			n = max(1, n-1) // a loader that has a bound of its own
		}
		f.s, f.order, f.floor, f.back = store.Segment{First: w.next, End: w.next + n}, w.order, w.floor, w.went
		if l.old {
			f.floor = 0
		}
		w.next = f.s.End
		w.note("reserved %v for load %d of %s", f.s, f.load.Seq, f.to.name)
		w.grants = append(w.grants, f)
	}
	l.loads, l.expects = nil, w.next
}

// size is how many IDs a loader reserves for a load.
func (w *world) size(l allocator.Load) int64 {
	return store.Want{Step: l.Step, Waiting: l.Want, Most: 1 << 40}.Size(w.order, w.step)
}

// deliver brings a grant to its worker.
func (w *world) deliver(f flight) {
	if !slices.Contains(w.workers, f.to) {
		return // it has crashed
	}
	w.learn(f.to, f.floor)
	v := f.to.Answer("order", f.load.Seq, allocator.Answer{Segment: f.s, Step: w.step, Order: f.order, Line: store.Line{Floor: f.floor}})
	w.note("%s: grant %v of load %d, %s, under %d: %+v", f.to.name, f.s, f.load.Seq, f.order, f.floor, v)
	if v.Outcome == allocator.Below && !f.back {
		w.fail("%v of load %d is taken for proof that the store went back", f.s, f.load.Seq)
	}
	f.to.drain()
}

// pass lets time pass at all workers.
func (w *world) pass(by time.Duration) {
	w.now += by
	for _, m := range w.workers {
		m.now = w.now
		m.Tick()
	}
}

// happen is a random event.
func (w *world) happen() {
	w.anyone().perform()
	m := w.anyone()
	if n := w.random.IntN(1000); w.decides && n < 50 {
		switch {
		case n < 8:
			w.decide()
		case n < 12:
			w.goBack()
		case n < 15:
			m.perform()
			m.Void()
		default:
			w.learn(m, w.floor)
		}
		return
	}
	switch n := w.random.IntN(1000); {
	case n < 200:
		w.request(m, w.random.Int64N(3)+1, w.chance(10))
	case n < 400:
		w.send(m)
	case n < 650:
		w.work(&w.loaders[w.random.IntN(len(w.loaders))])
	case n < 850:
		if f, ok := w.pick(&w.grants); ok {
			w.deliver(f)
		}
	case n < 900:
		w.pass(time.Duration(w.random.Int64N(int64(400 * time.Millisecond))))
	case n < 930:
		if len(m.requests) > 0 {
			r := m.requests[w.random.IntN(len(m.requests))]
			w.note("%s: the request for %d above %d is withdrawn", m.name, r.N, r.floor)
			r.wanted = false
			m.requests = slices.DeleteFunc(m.requests, func(o *worldRequest) bool { return o == r })
			m.Withdraw("order", r)
		}
	case n < 945:
		w.pick(&w.flying) // which is lost
	case n < 960:
		w.pick(&w.grants)
	case n < 970:
		l := &w.loaders[w.random.IntN(len(w.loaders))]
		if w.chance(50) { // its write was done, but its grants are lost
			for _, f := range l.loads {
				w.next += w.size(f.load)
			}
		}
		l.loads = nil
	case n < 980:
		w.note("%s crashes", m.name)
		w.workers[slices.Index(w.workers, m)] = w.newMember()
	case n < 990:
		m.Remove("order")
	case n < 995:
		for range 61 {
			m.DropIdle()
		}
	default:
		if f, ok := w.pick(&w.flying); ok && slices.Contains(w.workers, f.to) {
			if w.chance(50) {
				w.note("%s: load %d is put off", f.to.name, f.load.Seq)
				f.to.Answer("order", f.load.Seq, allocator.Answer{Later: allocator.Later(w.random.IntN(4) + 1)})
				f.to.drain()
				return
			}
			w.note("%s: load %d is refused", f.to.name, f.load.Seq)
			f.to.Refuse("order", f.load.Seq, store.ErrExhausted)
		}
	}
}

// calm ends all faults. A request at each worker has to be answered in time.
func (w *world) calm() {
	w.note("calm")
	w.quiet = true
	for _, m := range w.workers {
		m.lazy = false
		m.drain()
	}
	w.lazy = false
	settle := func(d time.Duration) {
		for end := w.now + d; w.now < end; w.pass(50 * time.Millisecond) {
			for _, m := range w.workers {
				for w.send(m) {
				}
			}
			for len(w.flying) > 0 || len(w.loaders[0].loads) > 0 {
				w.work(&w.loaders[0])
			}
			for len(w.grants) > 0 {
				f := w.grants[0]
				w.grants = w.grants[1:]
				w.deliver(f)
			}
		}
	}
	w.loaders = [2]worldLoader{{old: w.loaders[0].old}}
	if w.went {
		w.decide()
	}
	for _, m := range w.workers {
		if w.loaders[0].old || w.chance(50) { // the others learn of it from grants
			w.learn(m, w.floor)
		}
	}
	settle(20 * time.Second) // the longest pause before a load is sent again
	var last []*worldRequest
	for _, m := range w.workers {
		last = append(last, w.request(m, 3, false))
	}
	settle(allocator.DefaultWait)
	for i, m := range w.workers {
		if r := last[i]; r.answered != 1 || r.err != nil || m.Parked() > 0 || w.order == store.Strict && m.Loading() > 0 {
			w.fail("%s: at the end answered %d times, %v, %d parked, %d loading", m.name, r.answered, r.err, m.Parked(), m.Loading())
		}
		if f := m.Figures()[0]; m.Floor() == w.floor && (f.Order != w.order || (f.Left > 0) != (w.order == store.Trend)) {
			w.fail("%s: at the end %+v", m.name, f)
		}
	}
}

// firstSeed is IDWORKER_SEED, if that is set.
func firstSeed(t *testing.T) uint64 {
	seed, err := strconv.ParseUint(os.Getenv("IDWORKER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64() >> 1
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	return seed
}

// TestStrictOrderOverAnyNetwork is the promise of strict tags: each ID is above
// all IDs that were answered, by any worker, before its request was sent, and
// none is handed out twice. Once the faults end, requests are answered. Trend
// tags, which a worker cannot distinguish from strict tags before their first
// grant, keep the promise of each worker.
func TestStrictOrderOverAnyNetwork(t *testing.T) {
	t.Parallel()
	first := firstSeed(t)
	for seed := first; seed < first+tier.Pick[uint64](3000, 200_000); seed++ {
		order := store.Strict
		if seed%4 == 0 {
			order = store.Trend
		}
		w := newWorld(t, seed, order)
		for range 300 {
			w.happen()
		}
		w.calm()
	}
}
