package order_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/order"
)

// right is a correct history of a tag: callers with a request at a time, each
// answered at some moment between its sending and its receiving.
func right(random *rand.Rand, calls int) []history.Call {
	const callers = 8
	at := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	free := make([]int, callers) // when a caller received its last answer
	next, now := int64(1), 0
	var all []history.Call
	for range calls {
		caller := random.IntN(callers)
		now = max(now, free[caller]) + 2 + random.IntN(3) // the moment of the answer
		sent := now - 1 - random.IntN(now-free[caller]-1)
		received := now + 1 + random.IntN(30)
		free[caller] = received
		n := 1 + random.Int64N(5)
		next += random.Int64N(3) // skipped
		all = append(all, history.Call{
			Tag: "t", Sent: at(sent), Received: at(received), Count: n, Ranges: split(random, next, n),
		})
		next += n
	}
	return all
}

// split returns n IDs from first, in a single range or in two.
func split(random *rand.Rand, first, n int64) []messages.Range {
	if at := random.Int64N(n); at > 0 {
		return []messages.Range{{First: first, Last: first + at - 1}, {First: first + at, Last: first + n - 1}}
	}
	return []messages.Range{{First: first, Last: first + n - 1}}
}

// swap exchanges the IDs of two calls.
func swap(h []history.Call, a, b int) {
	h[a].Ranges, h[b].Ranges = h[b].Ranges, h[a].Ranges
	h[a].Count, h[b].Count = h[b].Count, h[a].Count
}

// ordered finds two calls: the first was answered before the second was sent.
func ordered(random *rand.Rand, h []history.Call) (a, b int) {
	for {
		a, b = random.IntN(len(h)), random.IntN(len(h))
		if h[a].Received < h[b].Sent {
			return a, b
		}
	}
}

// allPairs checks the promise literally, in O(n²).
func allPairs(h []history.Call) bool {
	for _, a := range h {
		for _, b := range h {
			if a.Received < b.Sent && a.Ranges[len(a.Ranges)-1].Last >= b.Ranges[0].First {
				return false
			}
		}
	}
	return true
}

func TestRightHistoriesPass(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h := right(rand.New(rand.NewPCG(seed, 1)), 300)
		if !allPairs(h) {
			t.Fatalf("seed %d: the history of the test is wrong", seed)
		}
		rand.Shuffle(len(h), func(i, j int) { h[i], h[j] = h[j], h[i] })
		if err := order.Check(h); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := order.Linearizable(h, 10*time.Second); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestMutatedHistories plants a fault in each of many histories.
func TestMutatedHistories(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name   string
		want   string
		linear bool // porcupine sees it; it treats each answer as a whole
		mutate func(*rand.Rand, []history.Call)
	}{
		{"two answers exchanged", "NOT ASCENDING", false, func(r *rand.Rand, h []history.Call) {
			a, b := ordered(r, h)
			swap(h, a, b)
		}},
		{"an ID given again, later", "NOT ASCENDING", false, func(r *rand.Rand, h []history.Call) {
			a, b := ordered(r, h)
			h[b].Ranges, h[b].Count = h[a].Ranges, h[a].Count
		}},
		{"an ID given twice at the same time", "DUPLICATE", false, func(r *rand.Rand, h []history.Call) {
			a := r.IntN(len(h))
			b := (a + 1) % len(h)
			h[b] = h[a]
		}},
		{"an answer from a buffer that was kept", "NOT ASCENDING", false, func(r *rand.Rand, h []history.Call) {
			_, b := ordered(r, h)
			h[b].Ranges, h[b].Count = []messages.Range{{First: 1, Last: 1}}, 1
			h[0].Ranges, h[0].Count = []messages.Range{{First: 2, Last: 2}}, 1
			if h[0].Received > h[b].Sent {
				h[0].Received = h[b].Sent - 1
				h[0].Sent = h[0].Received
			}
		}},
		{"one too few", "NOT A REPLY", true, func(r *rand.Rand, h []history.Call) { h[r.IntN(len(h))].Count++ }},
		{"zero", "NOT A REPLY", false, func(r *rand.Rand, h []history.Call) {
			c := &h[r.IntN(len(h))]
			c.Ranges, c.Count = []messages.Range{{First: 0, Last: 0}}, 1
		}},
		{"beyond the end of the numbers", "NOT A REPLY", true, func(_ *rand.Rand, h []history.Call) {
			c := &h[len(h)-1]
			c.Ranges, c.Count = []messages.Range{{First: 1<<63 - 1, Last: 1<<63 - 1}, {First: -1 << 63, Last: -1 << 63}}, 2
		}},
		{"downward within an answer", "NOT A REPLY", true, func(_ *rand.Rand, h []history.Call) {
			c := &h[len(h)-1]
			c.Ranges, c.Count = []messages.Range{{First: 1 << 40, Last: 1 << 40}, {First: 1 << 39, Last: 1 << 39}}, 2
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				random := rand.New(rand.NewPCG(seed, 2))
				h := right(random, 200)
				m.mutate(random, h)
				if err := order.Check(h); err == nil || !strings.Contains(err.Error(), m.want) {
					t.Errorf("seed %d: %v, want %s", seed, err, m.want)
				}
				if err := order.Linearizable(h, 10*time.Second); err == nil && !m.linear {
					t.Errorf("seed %d: porcupine finds it linearizable", seed)
				}
			}
		})
	}
}

// TestSameVerdict exchanges any two answers, and compares the verdict with
// allPairs and porcupine: only overlapping calls may be exchanged.
func TestSameVerdict(t *testing.T) {
	t.Parallel()
	verdicts := make(map[bool]int)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		h := right(random, 60)
		a := random.IntN(len(h) - 1)
		swap(h, a, a+1)
		want := allPairs(h)
		verdicts[want]++
		if got := order.Check(h); (got == nil) != want {
			t.Errorf("seed %d: %v, all pairs are right: %v", seed, got, want)
		}
		if got := order.Linearizable(h, 10*time.Second); (got == nil) != want {
			t.Errorf("seed %d: porcupine: %v, all pairs are right: %v", seed, got, want)
		}
	}
	if verdicts[true] < 25 || verdicts[false] < 25 {
		t.Errorf("%v: the test does not tell much", verdicts)
	}
}

// TestTagsAreApart: tags have independent orders.
func TestTagsAreApart(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 4))
	a, b := right(random, 100), right(random, 100)
	for i := range b {
		b[i].Tag = "other"
	}
	if err := order.Check(append(a, b...)); err != nil {
		t.Error(err)
	}
	for i := range b {
		b[i].Tag = "t"
	}
	if err := order.Check(append(a, b...)); err == nil {
		t.Error("two histories of one tag, with the same IDs, pass")
	}
}

// TestHighestAnswerCounts: of two overlapping answers, the first to arrive has
// the higher ID. A later request's ID lies between them, which only the first
// answer disproves.
func TestHighestAnswerCounts(t *testing.T) {
	call := func(sent, received time.Duration, id int64) history.Call {
		return history.Call{Tag: "order", Sent: sent, Received: received, Count: 1, Ranges: []messages.Range{{First: id, Last: id}}}
	}
	calls := []history.Call{call(0, 1, 10), call(0, 2, 5), call(3, 4, 7)}
	if err := order.Check(calls); err == nil {
		t.Error("7 after 10 passes")
	}
	if err := order.Check(append(calls[:2:2], call(3, 4, 11))); err != nil {
		t.Error(err)
	}
}
