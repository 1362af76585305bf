package nemesis

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// effect counts the requests' outcomes while a fault lasted, and shortly after.
type effect struct {
	Fault
	begun, ended time.Duration // as it was; ended is 0 while it lasts
	failure      error         // why it was not done
	calls        int64
	failed       int64
	took         *hdrhistogram.Histogram
	waiting      map[Kind]bool // kinds of callers that were not answered since it ended
	recovered    time.Duration // since it ended
	done         bool          // all were
}

// aftermath is the time after its end in which a fault still counts for the
// outcome of requests.
const aftermath = 5 * time.Second

// figures collects effects. Several faults last at a time, and each counts for
// every request during it.
type figures struct {
	mu      sync.Mutex
	current []*effect
	all     []*effect
	kinds   map[Kind]*tally
}

// tally counts the outcomes of a kind of request.
type tally struct {
	calls, failed, ids int64
	took               *hdrhistogram.Histogram
}

// newTimes returns a histogram of durations: in nanoseconds, up to a day, to 1
// %.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(24*time.Hour), 2) }

// recovering are the kinds of callers that have to be answered again. Those of
// prefetchers live on memory.
var recovering = []Kind{Single, Batch, Raw, Strict, Template, Snowflake, HTTP, HTTPStrict, Event}

func (f *figures) begin(fault Fault, now time.Duration) *effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := &effect{Fault: fault, begun: now, took: newTimes()}
	f.current, f.all = append(f.current, e), append(f.all, e)
	return e
}

// end records that a fault is mended, or why it was skipped.
func (f *figures) end(e *effect, now time.Duration, failure error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.ended, e.failure, e.waiting = now, failure, make(map[Kind]bool)
	for _, k := range recovering {
		e.waiting[k] = true
	}
}

// add counts a call for the faults under which it was.
func (f *figures) add(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = make(map[Kind]*tally)
	}
	t := f.kinds[c.Kind]
	if t == nil {
		t = &tally{took: newTimes()}
		f.kinds[c.Kind] = t
	}
	failed, took := len(c.Ranges) == 0, c.Received-c.Sent
	t.calls++
	if failed {
		t.failed++
	} else {
		t.ids += c.Count
	}
	if c.Kind != Prefetched || took > ms {
		_ = t.took.RecordValue(int64(took))
	}
	for _, e := range f.current {
		if c.Kind != Prefetched && c.Kind != Event && (e.ended == 0 || c.Sent < e.ended+aftermath) {
			e.calls++
			_ = e.took.RecordValue(int64(took))
			if failed {
				e.failed++
			}
		}
		if e.ended > 0 && !failed && c.Sent > e.ended && e.waiting[c.Kind] {
			delete(e.waiting, c.Kind)
			if len(e.waiting) == 0 {
				e.done, e.recovered = true, c.Received-e.ended
			}
		}
	}
	f.current = slices.DeleteFunc(f.current, func(e *effect) bool { return e.done && c.Received > e.ended+2*aftermath })
}

// late are the kinds of callers that have not been answered a request sent
// after a time, by now.
func (f *figures) late(since time.Duration) (kinds []Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.current {
		if e.ended >= since {
			kinds = slices.AppendSeq(kinds, maps.Keys(e.waiting))
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
