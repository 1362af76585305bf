package nemesis

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// effect counts the requests' outcomes while a fault lasted, and shortly after.
type effect struct {
	Fault
	begun, ended time.Duration // as it was; ended is 0 while it lasts
	failure      error         // why it was not done
	calls        int64
	failed       int64
	longest      time.Duration // of a call
	snowflakes   tally         // calls while it lasted
	waiting      map[Kind]bool // kinds of callers that were not answered since it ended
	recovered    time.Duration // since it ended
	done         bool          // all were
	bite         bite
}

// bite is what a loss of writes has really done.
type bite struct {
	files   int    // that were damaged, lost or put back, or disks whose power was cut
	refused int    // files that were put back, because a server refused them when they were damaged
	lost    uint64 // writes of the register
	stopped bool   // a loader has stopped granting because of it
	raised  bool   // an operator has raised the tags
}

func (b bite) String() (text string) {
	if b.files > 0 {
		text = fmt.Sprintf(" files %d", b.files)
	}
	if b.refused > 0 {
		text += fmt.Sprintf(" refused %d", b.refused)
	}
	if b.lost > 0 {
		text += fmt.Sprintf(" lost %d", b.lost)
	}
	if b.stopped {
		text += " stopped"
	}
	if b.raised {
		text += " raised"
	}
	return text
}

// aftermath is the time after its end in which a fault still counts for the
// outcome of requests.
const aftermath = 5 * time.Second

// outcomes collects effects. Several faults last at a time, and each counts for
// every request during it.
type outcomes struct {
	mu      sync.Mutex
	current []*effect
	all     []*effect
	kinds   map[Kind]*tally
	awaited []Kind // that have to be answered again after a fault
}

// tally counts the outcomes of a kind of request.
type tally struct {
	calls, failed, ids int64
	longest            time.Duration
}

// recovering are the kinds of callers that are answered again after a fault.
// Those of prefetchers live on memory.
var recovering = []Kind{Single, Batch, Raw, Strict, Template, Snowflake, HTTP, HTTPStrict, Event}

func (f *outcomes) begin(fault Fault, now time.Duration) *effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := &effect{Fault: fault, begun: now}
	f.current, f.all = append(f.current, e), append(f.all, e)
	return e
}

// end records that a fault is mended, or why it was skipped.
func (f *outcomes) end(e *effect, now time.Duration, failure error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.ended, e.failure, e.waiting = now, failure, make(map[Kind]bool)
	for _, k := range f.awaited {
		e.waiting[k] = true
	}
}

// bite records what a loss has done.
func (f *outcomes) bite(fault Fault, record func(*bite)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.all {
		if e.Number == fault.Number && e.Kind == fault.Kind {
			record(&e.bite)
		}
	}
}

// bitten is what a loss has done.
func (f *outcomes) bitten(fault Fault) (b bite) {
	f.bite(fault, func(recorded *bite) { b = *recorded })
	return b
}

// add counts a call for the faults under which it was.
func (f *outcomes) add(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = make(map[Kind]*tally)
	}
	t := f.kinds[c.Kind]
	if t == nil {
		t = new(tally)
		f.kinds[c.Kind] = t
	}
	failed, took := len(c.Ranges) == 0, c.Received-c.Sent
	t.calls++
	if failed {
		t.failed++
	} else {
		t.ids += c.Count
	}
	t.longest = max(t.longest, took)
	for _, e := range f.current {
		if c.Kind != Prefetched && c.Kind != Event && (e.ended == 0 || c.Sent < e.ended+aftermath) {
			e.calls++
			e.longest = max(e.longest, took)
			if failed {
				e.failed++
			}
		}
		if c.Kind == Snowflake && e.ended == 0 {
			e.snowflakes.calls++
			if failed {
				e.snowflakes.failed++
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
func (f *outcomes) late(since time.Duration) (kinds []Kind) {
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

// Result is the report of a run.
func (r *Run) Result() string {
	var b strings.Builder
	c := r.checker
	ids, answers := c.Counts()
	violations := c.Violations()
	fmt.Fprintf(&b, "### %s, seed %d: %d violations\n\n", r.Store, r.Seed, len(violations))
	done, notDone := r.figures.count()
	commit, _ := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	fmt.Fprintf(&b, "%v with %d faults, and %d that found nothing to take hold of; sync_interval %s; %d cores, commit %s.\n",
		r.Duration, done, notDone, r.Sync, runtime.NumCPU(), strings.TrimSpace(string(commit)))
	if r.Product != "" {
		fmt.Fprintf(&b, "The idworker of %s.\n", r.Product)
	}
	fmt.Fprintf(&b, "Checked: %d IDs in %d answers, and %d events.\n", ids, answers, c.events)
	fmt.Fprintf(&b, "Late answers to raw requests: %d. Answers whose grant was not seen: %d. Parts of histories that porcupine saw: %d, undecided: %d.\n\n",
		r.late.Load(), c.unknown, c.asked, c.undecided)
	b.WriteString(r.figures.table())
	for _, line := range slices.Concat(r.notes.list, violations) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

// losses are what faults have really done in which JetStream may lose writes.
func (f *outcomes) losses(w io.Writer) {
	_, _ = fmt.Fprintln(w, "\nloss\ttimes\twith files\trefused\tlosses\tlost writes\tstopped\traised\tforgotten\t")
	for _, k := range kinds {
		var times, files, refused, lost, stopped, raised, forgotten int
		var writes uint64
		for _, e := range f.all {
			if e.Kind != k.name || !k.loses() || e.failure != nil && e.bite == (bite{}) {
				continue
			}
			times++
			files += min(e.bite.files, 1)
			refused += e.bite.refused
			if e.bite.lost > 0 {
				lost++
			}
			writes += e.bite.lost
			if e.bite.stopped {
				stopped++
			}
			if e.bite.raised {
				raised++
			}
			if e.Forget != "" {
				forgotten++
			}
		}
		if times > 0 {
			_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k.name, times, files, refused, lost, writes, stopped, raised, forgotten)
		}
	}
}

// table is the figures as tables.
func (f *outcomes) table() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.Debug|tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "callers\trequests\tIDs\tfailed\tlongest\t")
	for _, k := range slices.Sorted(maps.Keys(f.kinds)) {
		t := f.kinds[k]
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t\n", k, t.calls, t.ids, t.failed, t.longest.Round(ms))
	}
	_, _ = fmt.Fprintln(w, "\nfault\ttimes\trequests\tfailed\tlongest\trecovered, latest\t")
	for _, k := range kinds {
		var sum effect
		times := 0
		for _, e := range f.all {
			if e.Kind == k.name && e.failure == nil {
				times++
				sum.calls, sum.failed = sum.calls+e.calls, sum.failed+e.failed
				sum.longest, sum.recovered = max(sum.longest, e.longest), max(sum.recovered, e.recovered)
			}
		}
		if times > 0 {
			_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%v\t\n", k.name, times, sum.calls, sum.failed, sum.longest.Round(ms), sum.recovered.Round(ms))
		}
	}
	f.losses(w)
	_ = w.Flush()
	for _, e := range f.all {
		if e.Kind == "majority away" {
			fmt.Fprintf(&b, "- a majority away from %v for %v: %d requests for snowflake IDs, %d failed\n",
				e.begun.Round(ms), (e.ended - e.begun).Round(ms), e.snowflakes.calls, e.snowflakes.failed)
		}
	}
	return b.String()
}

// count is how many faults were done, and how many were not.
func (f *outcomes) count() (done, notDone int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.all {
		if e.failure != nil {
			notDone++
		}
	}
	return len(f.all) - notDone, notDone
}
