package allocator_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// model is one worker process whose loads and grants travel over a network that loses,
// doubles, delays and reorders them. It records what has been handed out.
type model struct {
	*harness
	next     map[string]int64 // the store
	loads    []allocator.Load
	grants   []grant
	requests []*request
	handed   map[string]map[int64]bool
	highest  map[string]int64
}

type grant struct {
	tag string
	s   store.Segment
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
		harness: newHarness(allocator.Config{MaxStep: 64, MaxParkedPerTag: 5, MaxParked: 8}),
		next:    map[string]int64{"a": 1, "b": 1},
		handed:  map[string]map[int64]bool{"a": {}, "b": {}},
		highest: map[string]int64{},
	}
	m.Update(map[string]int64{"a": 4, "b": 7})
	return m
}

// collect records what has been answered, and finds every broken promise in it. It runs
// after each step, so that answers are recorded in their order.
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
			if id >= m.next[r.tag] {
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

// TestAnyNetworkAnyOrder is the promise of one worker: whatever happens to loads
// and grants, no ID twice, IDs of a tag only go up, and no request waits past its
// deadline.
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
			"reserve": func(t *rapid.T) { // a load reaches the store; it may do so again
				if len(m.loads) == 0 {
					t.Skip("no load")
				}
				i := rapid.IntRange(0, len(m.loads)-1).Draw(t, "load")
				l := m.loads[i]
				if !rapid.Bool().Draw(t, "redelivered") {
					m.loads = append(m.loads[:i], m.loads[i+1:]...)
				}
				s := store.Segment{First: m.next[l.Tag], End: m.next[l.Tag] + max(l.Step, l.Want)}
				m.next[l.Tag] = s.End
				m.grants = append(m.grants, grant{l.Tag, s})
			},
			"grant": func(t *rapid.T) { // any grant arrives; it may arrive again
				if len(m.grants) == 0 {
					t.Skip("no grant")
				}
				i := rapid.IntRange(0, len(m.grants)-1).Draw(t, "grant")
				g := m.grants[i]
				if !rapid.Bool().Draw(t, "doubled") {
					m.grants = append(m.grants[:i], m.grants[i+1:]...)
				}
				m.Grant(g.tag, g.s)
			},
			"lose": func(t *rapid.T) {
				if len(m.grants) == 0 {
					t.Skip("no grant")
				}
				m.grants = m.grants[1:]
			},
			"other process": func(t *rapid.T) { // takes a range of its own from the store
				m.next[tag.Draw(t, "tag")] += rapid.Int64Range(1, 50).Draw(t, "n")
			},
			"refuse": func(t *rapid.T) {
				if len(m.loads) == 0 {
					t.Skip("no load")
				}
				m.Refuse(m.loads[0].Tag, m.loads[0].Seq, store.ErrExhausted)
			},
			"remove": func(t *rapid.T) { m.Update(nil, tag.Draw(t, "tag")) },
			"configure": func(t *rapid.T) {
				m.Update(map[string]int64{tag.Draw(t, "tag"): rapid.Int64Range(1, 80).Draw(t, "step")})
			},
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
