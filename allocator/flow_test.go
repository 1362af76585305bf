package allocator_test

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
)

// flow is a tag under traffic, in virtual time. The store answers after latency,
// until it is stopped.
type flow struct {
	*harness
	t       *testing.T
	rate    float64        // IDs per second
	batch   int64          // IDs per request; 0: a hundredth of the latest load
	uneven  func() float64 // the length of the next pause, 1 on average; nil: always
	latency time.Duration
	stopped bool
	scraped bool  // the figures are read every 15 s, as a monitor does
	ceiling int64 // of a load, at the loader too

	elapsed float64 // seconds; the harness's clock is this, rounded
	sent    int64   // IDs that were requested
	waited  int     // requests that were not answered at once
	loads   []loaded
	granted int           // of these
	read    time.Duration // when the figures were read
}

// loaded is a load and the time at which it was sent.
type loaded struct {
	at time.Duration
	allocator.Load
}

func newFlow(t *testing.T, rate float64, configured, ceiling int64) *flow {
	f := &flow{harness: newHarness(allocator.Config{MaxStep: ceiling}), t: t, rate: rate, ceiling: ceiling}
	f.step = configured
	f.rest(24 * time.Hour) // the worker has run for a day
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

// reserved is how many IDs the store has given so far.
func (f *flow) reserved() int64 { return f.next - 1 }

// runway is the time that the buffer lasts from now on, at the real rate. It
// does not read the figures, because that takes samples.
func (f *flow) runway() time.Duration {
	return time.Duration(float64(f.reserved()-f.sent) / f.rate * float64(time.Second))
}

// rest lets time pass without requests.
func (f *flow) rest(d time.Duration) {
	f.elapsed += d.Seconds()
	f.now = time.Duration(f.elapsed * float64(time.Second))
}

// request waits for the next request and sends it.
func (f *flow) request() *outcome {
	n := f.batch
	if n == 0 {
		n = 1
		if len(f.loads) > 0 {
			n = max(1, f.loads[len(f.loads)-1].Step/100)
		}
	}
	pause := float64(n) / f.rate
	if f.uneven != nil {
		pause *= f.uneven()
	}
	f.elapsed += pause
	f.now = time.Duration(f.elapsed * float64(time.Second))
	f.serve()
	f.sent += n
	o := f.harness.request("order", n)
	if o.answered == 0 {
		f.waited++
	}
	f.serve()
	if f.scraped && f.now-f.read >= 15*time.Second {
		f.read = f.now
		f.Figures()
	}
	return o
}

// serve is the store: it grants each load, once latency has passed.
func (f *flow) serve() {
	for progress := true; progress; {
		for _, l := range f.asked {
			if l.First {
				l.Step = min(f.step, f.ceiling)
			}
			f.loads = append(f.loads, loaded{f.now, l})
		}
		f.asked = nil
		if progress = f.granted < len(f.loads) && !f.stopped && f.now >= f.loads[f.granted].at+f.latency; progress {
			l := f.loads[f.granted]
			f.granted++
			f.Grant(l.Tag, l.Seq, f.reserve(max(l.Step, l.Want)))
		}
	}
}

// mustServe sends the next request, and fails the test if the store's answer to
// a load does not answer it, too.
func (f *flow) mustServe() {
	f.t.Helper()
	if o := f.request(); f.latency == 0 && o.answered != 1 || o.err != nil {
		f.t.Fatalf("at %v: answered %d times, %v", f.now, o.answered, o.err)
	}
}

// load sends requests until another n segments were requested.
func (f *flow) load(n int) {
	f.t.Helper()
	for until := len(f.loads) + n; len(f.loads) < until; {
		f.mustServe()
	}
}

// run sends requests for some time, and calls each after each of them.
func (f *flow) run(d time.Duration, each func()) {
	f.t.Helper()
	for until := f.now + d; f.now < until; {
		f.mustServe()
		each()
	}
}

// burst sends requests for n IDs, of an ID each, evenly within that time.
func (f *flow) burst(n int64, within time.Duration) {
	f.t.Helper()
	f.rate, f.batch = float64(n)/within.Seconds(), 1
	for range n {
		f.mustServe()
	}
}

func nothing() {}
