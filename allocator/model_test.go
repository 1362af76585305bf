package allocator_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// model is one worker process with trend tags, whose loads and grants travel
// over a network that loses, doubles, delays and reorders them, and whose store
// may regress. It records the IDs that were handed out, and the grants that the
// process has seen.
type model struct {
	*harness
	next     map[string]int64 // the store
	reserved map[string]int64 // the end of everything that the store ever gave
	// The end of the highest segment that counted; 0: the tag is unknown.
	high     map[string]int64
	below    map[string]bool // a grant was Below since the last used grant
	loads    []allocator.Load
	grants   []grant
	requests []*request
	handed   map[string]map[int64]bool
	highest  map[string]int64
}

type grant struct {
	tag  string
	seq  uint64
	s    store.Segment
	back bool // it was reserved while the store lay below an earlier grant
}

type request struct {
	tag string
	n   int64
	at  time.Duration
	*outcome
}

var modelTags = []string{"a", "b"}

func newModel() *model {
	m := &model{
		harness:  newHarness(allocator.Config{MaxStep: 64, MaxParkedPerTag: 5, MaxParked: 8}),
		next:     map[string]int64{"a": 1, "b": 1},
		reserved: map[string]int64{"a": 1, "b": 1},
		high:     map[string]int64{},
		below:    map[string]bool{},
		handed:   map[string]map[int64]bool{"a": {}, "b": {}},
		highest:  map[string]int64{},
	}
	return m
}

// collect records the latest answers, and finds every broken promise in them.
// It runs after each step, so that answers are recorded in their order.
func (m *model) collect(t *rapid.T) {
	open := m.requests[:0]
	for _, r := range m.requests {
		switch {
		case r.answered > 1:
			t.Fatalf("request for %d of %s was answered %d times", r.n, r.tag, r.answered)
		case r.answered == 1:
			m.record(t, r)
		case m.now-r.at > allocator.DefaultWait+allocator.DefaultReAsk:
			t.Fatalf("request for %d of %s is parked since %v", r.n, r.tag, m.now-r.at)
		default:
			open = append(open, r)
		}
	}
	m.requests = open
	for _, l := range m.asked {
		if l.First != (m.high[l.Tag] == 0) {
			t.Fatalf("asked for %+v, after grants up to %d", l, m.high[l.Tag])
		}
	}
	m.loads = append(m.loads, m.asked...)
	m.asked = nil
}

func (m *model) record(t *rapid.T, r *request) {
	var total int64
	for _, s := range r.ids {
		for id := s.First; id < s.End; id++ {
			if m.handed[r.tag][id] {
				t.Fatalf("%s: %d was handed out twice", r.tag, id)
			}
			if id <= m.highest[r.tag] {
				t.Fatalf("%s: %d after %d", r.tag, id, m.highest[r.tag])
			}
			if id >= m.reserved[r.tag] {
				t.Fatalf("%s: %d was never reserved", r.tag, id)
			}
			m.handed[r.tag][id] = true
			m.highest[r.tag] = id
			total++
		}
	}
	if r.err == nil && total != r.n {
		t.Fatalf("%s: %d IDs for a request of %d", r.tag, total, r.n)
	}
	if r.err != nil && total != 0 {
		t.Fatalf("%s: %d IDs beside the error %v", r.tag, total, r.err)
	}
}

// reserve takes a range from the store.
func (m *model) reserve(tag string, n int64) (s store.Segment, back bool) {
	s = store.Segment{First: m.next[tag], End: m.next[tag] + n}
	m.next[tag] = s.End
	back = s.First < m.reserved[tag]
	m.reserved[tag] = max(m.reserved[tag], s.End)
	return s, back
}

// deliver brings a grant to the process. Its outcome is Below if it answers the
// load under way and lies below an earlier grant; then the store did regress.
// An unknown tag takes only an answer to the load under way.
func (m *model) deliver(t *rapid.T, g grant) {
	high := m.high[g.tag]
	loading := m.UnderWay(g.tag, g.seq)
	v := m.Grant(g.tag, g.seq, g.s)
	if below := loading && g.s.First < high; below != (v.Outcome == allocator.Below) {
		t.Fatalf("%+v above %d, loading %t: %+v", g, high, loading, v)
	}
	switch {
	case high == 0 && loading != (v.Outcome == allocator.Used):
		t.Fatalf("%+v of an unknown tag, loading %t: %+v", g, loading, v)
	case v.Outcome == allocator.Used && g.s.First < high:
		t.Fatalf("%+v was used, below %d", g, high)
	case v.Outcome == allocator.Used:
		m.below[g.tag] = false
	case v.Outcome == allocator.Below:
		m.checkBelow(t, g, v)
	}
	if g.s.First >= high && (loading || high > 0) {
		m.high[g.tag] = g.s.End
	}
}

func (m *model) checkBelow(t *rapid.T, g grant, v allocator.Verdict) {
	if !g.back {
		t.Fatalf("%+v is taken for proof, but the store had not gone back: %+v", g, v)
	}
	if v.Above != m.high[g.tag] || v.FirstBelow == m.below[g.tag] {
		t.Fatalf("%+v: %+v, want it below %d, in an episode that had begun: %t", g, v, m.high[g.tag], m.below[g.tag])
	}
	m.below[g.tag] = true
	if v.FirstBelow && (len(m.asked) != 1 || m.asked[0].Seq == g.seq) {
		t.Fatalf("after %+v asked for %+v, want one new load at once", g, m.asked)
	}
}

// forget notes that a tag was dropped. From then on its store does not regress,
// because the process cannot detect that; the register does.
func (m *model) forget(tag string) {
	m.high[tag], m.below[tag] = 0, false
	m.next[tag] = m.reserved[tag]
}

// TestAnyNetworkAnyOrder is the promise of one worker: no ID twice, IDs of a
// tag only ascend, and no request waits past its deadline. It holds for any
// fate of loads and grants, and any regression of the store. The store is
// reported as regressed only if it did, and whenever there is proof.
func TestAnyNetworkAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		tag := rapid.SampledFrom(modelTags)
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				r := &request{tag: tag.Draw(t, "tag"), n: rapid.Int64Range(1, 40).Draw(t, "n"), at: m.now}
				r.outcome = m.request(r.tag, r.n)
				m.requests = append(m.requests, r)
			},
			// A load reaches the store; it may do so again.
			"reserve": func(t *rapid.T) {
				if len(m.loads) == 0 {
					t.Skip("no load")
				}
				i := rapid.IntRange(0, len(m.loads)-1).Draw(t, "load")
				l := m.loads[i]
				if !rapid.Bool().Draw(t, "redelivered") {
					m.loads = append(m.loads[:i], m.loads[i+1:]...)
				}
				if rapid.Bool().Draw(t, "raised") {
					m.next[l.Tag] = max(m.next[l.Tag], m.high[l.Tag])
				}
				s, back := m.reserve(l.Tag, m.size(l))
				m.grants = append(m.grants, grant{l.Tag, l.Seq, s, back})
			},
			// Any grant arrives; it may arrive again.
			"grant": func(t *rapid.T) {
				if len(m.grants) == 0 {
					t.Skip("no grant")
				}
				i := rapid.IntRange(0, len(m.grants)-1).Draw(t, "grant")
				g := m.grants[i]
				if !rapid.Bool().Draw(t, "doubled") {
					m.grants = append(m.grants[:i], m.grants[i+1:]...)
				}
				m.deliver(t, g)
			},
			"lose": func(t *rapid.T) {
				if len(m.grants) == 0 {
					t.Skip("no grant")
				}
				m.grants = m.grants[1:]
			},
			// Takes a range of its own from the store.
			"other process": func(t *rapid.T) {
				m.reserve(tag.Draw(t, "tag"), rapid.Int64Range(1, 50).Draw(t, "n"))
			},
			"store goes back": func(t *rapid.T) {
				name := tag.Draw(t, "tag")
				if m.high[name] == 0 {
					t.Skip("the tag is unknown")
				}
				m.next[name] = rapid.Int64Range(1, m.next[name]).Draw(t, "to")
			},
			"refuse": func(t *rapid.T) {
				if len(m.loads) == 0 {
					t.Skip("no load")
				}
				refusal := rapid.SampledFrom([]error{store.ErrExhausted, store.ErrNoTag}).Draw(t, "with")
				m.Refuse(m.loads[0].Tag, m.loads[0].Seq, refusal)
			},
			"not now": func(t *rapid.T) {
				if len(m.loads) == 0 {
					t.Skip("no load")
				}
				m.NotNow(m.loads[0].Tag, m.loads[0].Seq)
			},
			"remove": func(t *rapid.T) {
				name := tag.Draw(t, "tag")
				m.Remove(name)
				m.forget(name)
			},
			"an hour without requests": func(*rapid.T) {
				for range 61 {
					m.DropIdle()
				}
				for _, name := range modelTags {
					if m.high[name] > 0 && !slices.ContainsFunc(m.Figures(), func(f allocator.Figures) bool { return f.Tag == name }) {
						m.forget(name)
					}
				}
			},
			"configure": func(t *rapid.T) { m.step = rapid.Int64Range(1, 80).Draw(t, "step") },
			"time passes": func(t *rapid.T) {
				m.now += time.Duration(rapid.Int64Range(0, int64(allocator.DefaultReAsk)).Draw(t, "by"))
				m.Tick()
			},
			"": m.collect,
		})
		m.now += allocator.DefaultWait
		m.Tick()
		m.collect(t)
		if len(m.requests) != 0 || m.Parked() != 0 {
			t.Fatalf("%d requests open, %d counted as parked, after the last deadline", len(m.requests), m.Parked())
		}
	})
}
