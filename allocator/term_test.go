package allocator_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// requestIn does what the worker does with a request for IDs of a term.
func (h *harness) requestIn(tag string, term uint64, n int64, wait time.Duration) *outcome {
	o := &outcome{}
	if s, ok := h.TakeIn(tag, term, n); ok {
		o.answered, o.ids = 1, []store.Segment{s}
		return o
	}
	ids, err := h.TakeOrParkIn(tag, term, n, wait, func(ids []store.Segment, err error) {
		o.answered++
		o.ids, o.err = ids, err
	})
	if ids != nil || err != nil {
		o.answered++
		o.ids, o.err = ids, err
	}
	return o
}

func newTermHarness(cfg allocator.Config) *harness {
	cfg.Ordered = func(name string) bool { return name == "strict" }
	h := newHarness(cfg)
	h.Update(map[string]int64{"strict": 10, "trend": 10})
	return h
}

// TestTermDropsWhatIsLeftOfEarlierOnes: IDs in memory, loads under way, and parked requests.
func TestTermDropsWhatIsLeftOfEarlierOnes(t *testing.T) {
	h := newTermHarness(allocator.Config{})
	first := h.requestIn("strict", 1, 1, time.Second)
	h.grantAll()
	first.want(t, seg(1, 2))

	high := h.next
	waiting := h.requestIn("strict", 1, high, time.Second) // more than there is
	old := h.asked[0]
	h.asked = nil
	second := h.requestIn("strict", 2, 2, time.Second)
	if waiting.answered != 1 || !errors.Is(waiting.err, allocator.ErrTerm) {
		t.Errorf("a request of term 1 when term 2 begins: %+v, want ErrTerm", waiting)
	}
	if second.answered != 0 || len(h.asked) != 1 || h.asked[0].Seq <= old.Seq || h.asked[0].Above != high {
		t.Fatalf("a request of term 2: %+v, asked for %+v, want a new load above %d", second, h.asked, high)
	}
	if dropped := h.Dropped(); dropped != high-2 {
		t.Errorf("%d IDs dropped, want %d", dropped, high-2)
	}
	late := h.reserve(30) // what was asked for in term 1 is reserved, and arrives, first
	if v := h.Grant("strict", old.Seq, late); v.Outcome != allocator.Burnt || second.answered != 0 {
		t.Fatalf("a grant of term 1 in term 2: %+v, %+v", v, second)
	}
	h.grantAll()
	second.want(t, seg(late.End, late.End+2))
	if _, ok := h.TakeIn("strict", 1, 1); ok {
		t.Error("an ID of term 2 was taken for term 1")
	}
	if _, ok := h.Take("strict", 1); ok {
		t.Error("an ID of a term was taken by a request without one")
	}
}

// TestTermMeansAll: all ranges of a batch are of its term.
func TestTermMeansAll(t *testing.T) {
	h := newTermHarness(allocator.Config{})
	h.requestIn("strict", 1, 1, time.Second)
	h.grantAll()
	left := h.next - 2
	batch := h.requestIn("strict", 1, left+5, time.Second)
	h.next += 100 // others have taken some
	from := h.next
	h.grantAll()
	batch.want(t, seg(2, 2+left), seg(from, from+5))
	left = h.next - from - 5
	batch = h.requestIn("strict", 2, left+5, time.Second)
	h.next += 100
	from = h.next
	h.grantAll()
	batch.want(t, seg(from, from+left+5))
}

// TestEndOfTerms: EndTerms and EndTerm drop what they are for and nothing else, and nothing is loaded for
// tags that nobody asks for any more.
func TestEndOfTerms(t *testing.T) {
	h := newTermHarness(allocator.Config{})
	h.requestIn("strict", 1, 1, time.Second)
	h.requestIn("trend", 0, 1, time.Second)
	h.grantAll()
	for range 100 { // enough to tell a rate, for which memory never lasts
		h.now += time.Second
		h.requestIn("strict", 1, 20, time.Second)
		h.request("trend", 1)
		h.grantAll()
	}
	parked := h.requestIn("strict", 1, 1<<40, time.Second)
	h.asked = nil
	h.EndTerms(func(name string, term uint64) bool {
		if (name == "strict") != (term == 1) {
			t.Errorf("%s is of term %d", name, term)
		}
		return term == 1
	})
	if !errors.Is(parked.err, allocator.ErrTerm) || parked.answered != 1 || h.Parked() != 0 || h.Loading() != 0 {
		t.Errorf("parked: %+v, %d parked, %d loading", parked, h.Parked(), h.Loading())
	}
	h.now += time.Hour
	h.Tick()
	if len(h.asked) != 0 {
		t.Errorf("asked for %+v, and nobody wants it", h.asked)
	}
	if _, ok := h.Take("trend", 1); !ok {
		t.Error("another tag was dropped, too")
	}
	h.EndTerm("trend")
	if _, ok := h.Take("trend", 1); ok {
		t.Error("taken after the end")
	}
}

// TestNobodyAsksAfterATerm: at the rate of a term that has just ended, no memory lasts; and yet nothing is
// loaded.
func TestNobodyAsksAfterATerm(t *testing.T) {
	h := newTermHarness(allocator.Config{})
	for quiet := 0; quiet < 50; quiet++ { // requests since the latest load: it has been tried
		h.now += time.Second
		h.requestIn("strict", 1, 20, time.Second)
		if h.grantAll() > 0 {
			quiet = 0
		}
	}
	h.EndTerm("strict")
	h.now += time.Second
	h.Tick()
	if len(h.asked) != 0 || h.Loading() != 0 {
		t.Errorf("asked for %+v", h.asked)
	}
}

// TestOrderedByNow: a tag that is ordered by now gives no IDs without a term, neither to a request that is
// late nor by a grant that is.
func TestOrderedByNow(t *testing.T) {
	ordered := false
	h := newHarness(allocator.Config{Ordered: func(string) bool { return ordered }})
	h.Update(map[string]int64{"order": 10})
	parked := h.request("order", 1)
	ordered = true
	h.grantAll() // asked for without a term
	if !errors.Is(parked.err, allocator.ErrTerm) || parked.answered != 1 {
		t.Errorf("a request that was parked without a term: %+v", parked)
	}
	if late := h.request("order", 1); !errors.Is(late.err, allocator.ErrTerm) || len(h.asked) != 0 {
		t.Errorf("a late request without a term: %+v, asked for %+v", late, h.asked)
	}
	ordered = false
	again := h.request("order", 1)
	h.grantAll()
	again.want(t, seg(11, 12))
}

// TestDeadlinesOfTheirOwn: requests that have been on their way for longer are parked for less.
func TestDeadlinesOfTheirOwn(t *testing.T) {
	h := newTermHarness(allocator.Config{Wait: time.Second})
	long := h.requestIn("strict", 1, 1, time.Minute)
	short := h.requestIn("strict", 1, 1, 300*time.Millisecond)
	h.now += 310 * time.Millisecond
	h.Tick()
	if !errors.Is(short.err, allocator.ErrNoSegment) || long.answered != 0 {
		t.Errorf("after 310 ms: %+v, %+v", short, long)
	}
	h.now += 700 * time.Millisecond
	h.Tick()
	if !errors.Is(long.err, allocator.ErrNoSegment) {
		t.Errorf("after Config.Wait: %+v", long)
	}
}

// strictModel is some workers, one store, and who owns the tag. Loads and grants travel over a network
// that loses, doubles, delays and reorders them.
type strictModel struct {
	workers [3]*harness
	next    int64
	owner   int
	epoch   uint64
	loads   []strictLoad
	grants  []strictLoad
	open    []strictRequest
	highest int64
}

type strictLoad struct {
	worker int
	seq    uint64
	n      int64
	s      store.Segment
}

type strictRequest struct {
	worker int
	term   uint64
	floor  int64 // the highest ID that had been answered when it was sent
	*outcome
}

func newStrictModel() *strictModel {
	m := &strictModel{next: 1, epoch: 1}
	for i := range m.workers {
		m.workers[i] = newTermHarness(allocator.Config{MaxStep: 64})
	}
	return m
}

// collect does with the answers what the worker does: those whose term is not the present one are not
// sent.
func (m *strictModel) collect(t *rapid.T) {
	open := m.open[:0]
	for _, r := range m.open {
		switch {
		case r.answered == 0:
			open = append(open, r)
		case r.err == nil && r.term == m.epoch && r.worker == m.owner:
			for _, s := range r.ids {
				if s.First <= r.floor {
					t.Fatalf("worker %d in term %d answers %v, after %d had been answered", r.worker, r.term, r.ids, r.floor)
				}
				m.highest = max(m.highest, s.End-1)
			}
		}
	}
	m.open = open
	for i, w := range m.workers {
		for _, l := range w.asked {
			m.loads = append(m.loads, strictLoad{worker: i, seq: l.Seq, n: max(l.Step, l.Want)})
		}
		w.asked = nil
	}
}

// TestStrictOrderOverAnyNetwork: if an owner answers with what it took in its term, and only while that
// lasts, each ID is higher than all that were answered before it was asked for.
func TestStrictOrderOverAnyNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newStrictModel()
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				n := rapid.Int64Range(1, 30).Draw(t, "n")
				m.open = append(m.open, strictRequest{m.owner, m.epoch, m.highest, m.workers[m.owner].requestIn("strict", m.epoch, n, time.Second)})
			},
			"take over": func(t *rapid.T) {
				m.owner = rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")
				m.epoch++
			},
			"end": func(t *rapid.T) {
				i := rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")
				m.workers[i].EndTerms(func(_ string, term uint64) bool { return term != 0 && (term != m.epoch || i != m.owner) })
			},
			"reserve": func(t *rapid.T) {
				if len(m.loads) == 0 {
					t.Skip("no load")
				}
				i := rapid.IntRange(0, len(m.loads)-1).Draw(t, "load")
				l := m.loads[i]
				if !rapid.Bool().Draw(t, "redelivered") {
					m.loads = append(m.loads[:i], m.loads[i+1:]...)
				}
				l.s = store.Segment{First: m.next, End: m.next + l.n}
				m.next = l.s.End
				m.grants = append(m.grants, l)
			},
			"grant": func(t *rapid.T) {
				if len(m.grants) == 0 {
					t.Skip("no grant")
				}
				i := rapid.IntRange(0, len(m.grants)-1).Draw(t, "grant")
				g := m.grants[i]
				if !rapid.Bool().Draw(t, "doubled") {
					m.grants = append(m.grants[:i], m.grants[i+1:]...)
				}
				if v := m.workers[g.worker].Grant("strict", g.seq, g.s); v.Outcome == allocator.Below {
					t.Fatalf("%+v is taken for proof that the store went back", g)
				}
			},
			"time passes": func(t *rapid.T) {
				for _, w := range m.workers {
					w.now += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "by"))
					w.Tick()
				}
			},
			"": m.collect,
		})
	})
}
