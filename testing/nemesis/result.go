package nemesis

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is a run's result, in Markdown.
func (r *Run) Result() string {
	var b strings.Builder
	c := r.checker
	ids, answers := c.Counts()
	violations := c.Violations()
	fmt.Fprintf(&b, "### %s, seed %d: %d violations\n\n", r.Store, r.Seed, len(violations))
	done, notDone := r.figures.count()
	fmt.Fprintf(&b, "%v with %d faults, and %d that found nothing to take hold of; %s.\n", r.Duration, done, notDone, machine())
	fmt.Fprintf(&b, "Checked: %d IDs in %d answers, and %d events.\n", ids, answers, c.events)
	fmt.Fprintf(&b, "Late answers to raw requests: %d. Answers whose grant was not seen: %d. Parts of histories that porcupine saw: %d, undecided: %d.\n\n",
		r.late.Load(), c.unknown, c.asked, c.undecided)
	b.WriteString(r.figures.table())
	for _, line := range slices.Concat(r.notes.list, violations) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

// machine describes the run's machine, its checkers' memory, and its commit.
func machine() string {
	commit, _ := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	return fmt.Sprintf("%d × %s, checkers took %s, commit %s", runtime.NumCPU(),
		cmp.Or(field("/proc/cpuinfo", "model name"), runtime.GOARCH), field("/proc/self/status", "VmHWM"), strings.TrimSpace(string(commit)))
}

// field is the rest of the first line of a file that begins with a name.
func field(file, name string) string {
	text, _ := os.ReadFile(file) // there is none on other systems
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// table is the figures as two tables.
func (f *figures) table() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	callers := [][]string{{"callers", "requests", "IDs", "failed", "p50", "p99", "p99.9"}}
	for _, k := range slices.Sorted(maps.Keys(f.kinds)) {
		callers = append(callers, f.kinds[k].row(k))
	}
	faults := [][]string{{"fault", "times", "requests", "failed", "p99.9", "recovered, median", "latest"}}
	for _, k := range kinds {
		if of := f.of(k); len(of) > 0 {
			faults = append(faults, faultRow(k, of))
		}
	}
	return markdown(callers) + "\n" + markdown(faults) + "\n"
}

func (t *tally) row(k Kind) []string {
	return []string{
		string(k), fmt.Sprint(t.calls), fmt.Sprint(t.ids), fmt.Sprint(t.failed),
		percentile(t.took, 50), percentile(t.took, 99), percentile(t.took, 99.9),
	}
}

// count is how many faults were done, and how many were not.
func (f *figures) count() (done, notDone int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.all {
		if e.failure != nil {
			notDone++
		}
	}
	return len(f.all) - notDone, notDone
}

// of are the faults of a kind that were done. It needs mu.
func (f *figures) of(k kind) (of []*effect) {
	for _, e := range f.all {
		if e.Kind == k.name && e.failure == nil {
			of = append(of, e)
		}
	}
	return of
}

// faultRow sums up the faults of a kind.
func faultRow(k kind, of []*effect) []string {
	sum := effect{took: newTimes()}
	var recovered []time.Duration
	for _, e := range of {
		sum.took.Merge(e.took)
		sum.calls, sum.failed = sum.calls+e.calls, sum.failed+e.failed
		if e.done {
			recovered = append(recovered, e.recovered)
		}
	}
	slices.Sort(recovered)
	median, latest := "-", "-"
	if n := len(recovered); n > 0 {
		median, latest = round(recovered[n/2]), round(recovered[n-1])
	}
	return []string{k.name, fmt.Sprint(len(of)), fmt.Sprint(sum.calls), fmt.Sprint(sum.failed), percentile(sum.took, 99.9), median, latest}
}

// markdown is a table whose first row is its head. Columns but the first are
// numbers.
func markdown(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	line := make([]string, len(widths))
	for i, width := range widths {
		line[i] = strings.Repeat("-", width-1) + ":"
	}
	line[0] = strings.Repeat("-", widths[0])
	var b strings.Builder
	for _, row := range slices.Insert(slices.Clone(rows), 1, line) {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i > 0 {
				cell, pad = pad+cell, ""
			}
			fmt.Fprintf(&b, "| %s%s ", cell, pad)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

func percentile(times *hdrhistogram.Histogram, p float64) string {
	return round(time.Duration(times.ValueAtPercentile(p)))
}

func round(d time.Duration) string {
	if d > time.Second {
		return d.Round(10 * ms).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
