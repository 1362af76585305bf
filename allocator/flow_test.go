package allocator_test

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
)

// flow is a tag under steady traffic, in virtual time. Requests are batches of
// about a hundredth of a segment, so that a segment costs a hundred requests at
// any rate. The store answers at once, until it is stopped.
type flow struct {
	*harness
	t       *testing.T
	rate    float64 // IDs per second
	elapsed float64 // seconds; the harness's clock is this, rounded
	loads   []loaded
	stopped bool
}

// loaded is a load and the time of its request.
type loaded struct {
	at   time.Duration
	step int64
}

func newFlow(t *testing.T, rate float64, configured, ceiling int64) *flow {
	f := &flow{harness: newHarness(allocator.Config{MaxStep: ceiling}), t: t, rate: rate}
	f.step = configured
	return f
}

// figures are the tag's figures.
func (f *flow) figures() allocator.Figures {
	all := f.Figures()
	if len(all) != 1 {
		f.t.Fatalf("figures of %d tags, want 1", len(all))
	}
	return all[0]
}

// wait lets the time of n IDs pass.
func (f *flow) wait(n int64) {
	f.elapsed += float64(n) / f.rate
	f.now = time.Duration(f.elapsed * float64(time.Second))
}

// request waits for the next request and sends it.
func (f *flow) request() *outcome {
	n := int64(1)
	if len(f.loads) > 0 {
		n = max(1, f.loads[len(f.loads)-1].step/100)
	}
	f.wait(n)
	o := f.harness.request("order", n)
	f.serve()
	return o
}

// serve is the store: it grants all loads, unless it is stopped.
func (f *flow) serve() {
	for len(f.asked) > 0 && !f.stopped {
		l := f.asked[0]
		f.asked = f.asked[1:]
		if l.First {
			l.Step = f.step
		}
		f.loads = append(f.loads, loaded{f.now, l.Step})
		f.Grant(l.Tag, l.Seq, f.reserve(max(l.Step, l.Want)))
	}
}

// load sends requests until another n segments were requested, and fails the
// test if a request is not answered immediately, except the very first.
func (f *flow) load(n int) {
	for until := len(f.loads) + n; len(f.loads) < until; {
		if o := f.request(); o.answered != 1 || o.err != nil {
			f.t.Fatalf("at %v: answered %d times, %v", f.now, o.answered, o.err)
		}
	}
}

// lives are the lives of the latest n segments: the times between their loads.
func (f *flow) lives(n int) []time.Duration {
	lives := make([]time.Duration, n)
	for i, l := range f.loads[len(f.loads)-n:] {
		lives[i] = l.at - f.loads[len(f.loads)-n+i-1].at
	}
	return lives
}
