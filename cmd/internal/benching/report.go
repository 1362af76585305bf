package benching

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/internal/latency"
)

// Report is what is printed in the end.
type Report struct {
	Targets  []string            `json:"targets"`
	Callers  int                 `json:"callers"`
	Batch    int64               `json:"batch"`
	Seconds  float64             `json:"seconds"`
	Requests int64               `json:"requests"`
	Failed   int64               `json:"failed"`
	Failures map[string]*Failure `json:"failures"` // by code, or what else it was
	IDs      int64               `json:"ids"`
	NotMade  int64               `json:"not_made"` // requests that were due, and that no caller was free for
	Latency  Latency             `json:"latency_seconds"`
	Broken   Broken              `json:"broken"`

	InOrder     []string `json:"in_order"`      // what had to be in order, and was looked at
	NotLookedAt []string `json:"not_looked_at"` // what was not, and why

	took *latency.Histogram
}

// Latency is how long requests took that were answered, to 3 %, in seconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// report sums up a run that has ended.
func (b *Bench) report(t *tally, s *schedule) *Report {
	took := t.now()
	r := &Report{
		Callers: b.Callers, Batch: b.Batch, Seconds: took.Seconds(), Requests: t.requests, IDs: t.ids,
		Failures: t.failures, Broken: t.broken, InOrder: []string{}, NotLookedAt: []string{}, took: &t.took,
		Latency: Latency{
			P50: t.took.At(0.5).Seconds(), P90: t.took.At(0.9).Seconds(), P99: t.took.At(0.99).Seconds(),
			P999: t.took.At(0.999).Seconds(), Max: t.took.Max().Seconds(),
		},
	}
	for _, f := range t.failures {
		r.Failed += f.Count
	}
	r.NotMade = max(0, s.due(min(took, b.Duration))-t.requests)
	for _, target := range b.Targets {
		r.Targets = append(r.Targets, target.String())
		switch {
		case target.Strict:
			r.InOrder = append(r.InOrder, target.Tag)
		case target.Tag == "" && b.Layout.IsZero():
			r.NotLookedAt = append(r.NotLookedAt, "the order of snowflake IDs was not looked at: this user may not read their layout")
		case target.Tag == "":
			r.InOrder = append(r.InOrder, "snowflake IDs of each worker ID")
		}
	}
	return r
}

// Text prints it for people.
func (r *Report) Text(out io.Writer) error {
	w := bufio.NewWriter(out)
	r.print(w)
	return w.Flush()
}

func (r *Report) print(out io.Writer) {
	each := func(n int64) string { return fmt.Sprintf("%10d %10.0f/s", n, float64(n)/r.Seconds) }
	fmt.Fprintf(out, "%d callers for %.1f s, IDs in a request: %d, of: %s\n\n", r.Callers, r.Seconds, r.Batch, strings.Join(r.Targets, ", "))
	fmt.Fprintf(out, "requests  %s\n", each(r.Requests))
	fmt.Fprintf(out, "IDs       %s\n", each(r.IDs))
	fmt.Fprintf(out, "failed    %10d\n", r.Failed)
	for _, reason := range slices.Sorted(maps.Keys(r.Failures)) {
		fmt.Fprintf(out, "          %10d %s: %s\n", r.Failures[reason].Count, reason, r.Failures[reason].First)
	}
	r.printLatency(out)
	r.printVerdict(out)
}

// barWidth is how many characters the longest bar has.
const barWidth = 40

func (r *Report) printLatency(out io.Writer) {
	if r.took.Count() == 0 {
		return
	}
	fmt.Fprintf(out, "latency   p50 %v, p90 %v, p99 %v, p99.9 %v, max %v\n\n",
		show(r.took.At(0.5)), show(r.took.At(0.9)), show(r.took.At(0.99)), show(r.took.At(0.999)), show(r.took.Max()))
	var most int64
	for _, n := range r.took.Octaves() {
		most = max(most, n)
	}
	for below, n := range r.took.Octaves() {
		bar := strings.Repeat("█", int((n*barWidth+most-1)/most))
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  < %8v %10d %s", show(below), n, bar), " "))
	}
	fmt.Fprintln(out)
}

func (r *Report) printVerdict(out io.Writer) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out, "%-5s %s\n", what, fmt.Sprintf(format, args...))
	}
	for _, finding := range r.Broken.Findings {
		line("FAIL", "%s", finding)
	}
	if found := r.Broken.Duplicates + r.Broken.OutOfOrder + r.Broken.NoReplies; found > maxFindings {
		line("FAIL", "%d in all", found)
	}
	if !r.Broken.any() && r.IDs > 0 {
		line("ok", "%d IDs, each once", r.IDs)
		for _, what := range r.InOrder {
			line("ok", "in order: %s", what)
		}
	}
	for _, text := range r.NotLookedAt {
		line("note", "%s", text)
	}
	if r.NotMade > 0 {
		line("note", "%d requests were due that no caller was free for: take more --callers", r.NotMade)
	}
}

// show rounds a time to three digits.
func show(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
