package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
)

// Measurement is the result of a run.
type Measurement struct {
	Targets  []string            `json:"targets"`
	Callers  int                 `json:"callers"`
	Batch    int64               `json:"batch"`
	Seconds  float64             `json:"seconds"`
	Requests int64               `json:"requests"`
	Failed   int64               `json:"failed"`
	Failures map[string]*Failure `json:"failures"` // by code or reason
	IDs      int64               `json:"ids"`
	// Requests that were due while no caller was free.
	NotMade int64 `json:"not_made"`
	// By percentile, to three digits.
	Latency map[string]float64 `json:"latency_seconds"`
	Broken  Broken             `json:"broken"`

	// Targets whose order was checked.
	InOrder []string `json:"in_order"`
	// Other checks left out, with reasons.
	NotLookedAt []string `json:"not_looked_at"`

	took *hdrhistogram.Histogram // nanoseconds of answered requests
}

// Failure counts the requests that failed for a reason.
type Failure struct {
	Count int64  `json:"count"`
	First string `json:"first"` // the first error
}

// Broken counts the replies that broke a promise.
type Broken struct {
	// Ranges with an ID of an earlier reply.
	Duplicates int64    `json:"duplicates"`
	OutOfOrder int64    `json:"out_of_order"`
	NoReplies  int64    `json:"no_replies"` // not the requested IDs
	Findings   []string `json:"findings"`   // the first ten
}

func (b *Broken) count() int64 { return b.Duplicates + b.OutOfOrder + b.NoReplies }

// newReport begins the report of a run.
func newReport(c Config) *Measurement {
	r := &Measurement{
		Callers: c.Callers, Batch: c.Batch, Failures: make(map[string]*Failure), Latency: make(map[string]float64),
		Broken: Broken{Findings: []string{}}, InOrder: []string{}, NotLookedAt: []string{},
		took: hdrhistogram.New(1, math.MaxInt64, 3),
	}
	for _, target := range c.Targets {
		name := target.Tag
		switch target.Kind {
		case history.Strict:
			name += " (strict)"
			r.InOrder = append(r.InOrder, target.Tag)
		case history.Snowflake:
			name = "snowflake IDs"
			if c.Layout.IsZero() {
				r.NotLookedAt = append(r.NotLookedAt, "order of snowflake IDs not checked: this user may not read their layout")
			} else {
				r.InOrder = append(r.InOrder, "snowflake IDs of each worker ID")
			}
		}
		r.Targets = append(r.Targets, name)
	}
	return r
}

// addFailure counts an unanswered request.
func (r *Measurement) addFailure(err error) {
	r.Requests++
	r.Failed++
	reason := reasonOf(err)
	if r.Failures[reason] == nil {
		r.Failures[reason] = &Failure{First: err.Error()}
	}
	r.Failures[reason].Count++
}

// reasonOf returns the code of an error reply, or another reason. A call that
// timed out fails with that and with its latest error.
func reasonOf(err error) string {
	var reply *messages.Error
	switch {
	case errors.As(err, &reply):
		return strconv.Itoa(int(reply.Code))
	case errors.Is(err, nats.ErrNoResponders):
		return "no worker"
	case errors.Is(err, nats.ErrDisconnected):
		return "disconnected"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	case errors.Is(err, messages.ErrReply):
		return "malformed answer"
	}
	return "other"
}

// maxFindings bounds the findings of a report.
const maxFindings = 10

// addAnswer counts an answered request, and the faults of the reply.
func (r *Measurement) addAnswer(call *history.Call, took time.Duration, wrong []error) {
	r.Requests++
	r.IDs += call.Count
	_ = r.took.RecordValue(int64(took)) // fails only below 0
	for _, err := range wrong {
		switch {
		case errors.Is(err, history.ErrDuplicate):
			r.Broken.Duplicates++
		case errors.Is(err, history.ErrOrder):
			r.Broken.OutOfOrder++
		default:
			r.Broken.NoReplies++
		}
		if len(r.Broken.Findings) < maxFindings {
			r.Broken.Findings = append(r.Broken.Findings, err.Error())
		}
	}
}

// percentiles are the reported percentiles.
var percentiles = []struct {
	name  string
	share float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}}

func (r *Measurement) percentile(share float64) time.Duration {
	return time.Duration(r.took.ValueAtPercentile(share))
}

// finish completes the report of a run, given its duration and the number of
// requests that were due.
func (r *Measurement) finish(took time.Duration, due int64) {
	r.Seconds = took.Seconds()
	r.NotMade = max(0, due-r.Requests)
	for _, p := range percentiles {
		r.Latency[p.name] = r.percentile(p.share).Seconds()
	}
}

// Text prints the report for people.
func (r *Measurement) Text(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s for %.1f s, IDs per request: %d, of: %s\n\n",
		format.Of(r.Callers, "caller"), r.Seconds, r.Batch, strings.Join(r.Targets, ", "))
	fmt.Fprintf(w, "requests  %10d %10.0f/s\n", r.Requests, float64(r.Requests)/r.Seconds)
	fmt.Fprintf(w, "IDs       %10d %10.0f/s\n", r.IDs, float64(r.IDs)/r.Seconds)
	fmt.Fprintf(w, "failed    %10d\n", r.Failed)
	for _, reason := range slices.Sorted(maps.Keys(r.Failures)) {
		fmt.Fprintf(w, "          %10d %s: %s\n", r.Failures[reason].Count, reason, r.Failures[reason].First)
	}
	if r.took.TotalCount() > 0 {
		r.printLatency(w)
	}
	r.printVerdict(w)
	return w.Flush()
}

// barWidth is the length of the longest bar in characters.
const barWidth = 40

// printLatency prints percentiles, and a histogram by powers of two of
// nanoseconds.
func (r *Measurement) printLatency(out io.Writer) {
	texts := make([]string, len(percentiles))
	for i, p := range percentiles {
		texts[i] = fmt.Sprintf("%s %v", p.name, round(r.percentile(p.share)))
	}
	fmt.Fprintf(out, "latency   %s\n\n", strings.Join(texts, ", "))
	var counts [64]int64 // by the number of binary digits
	for _, bar := range r.took.Distribution() {
		counts[bits.Len64(uint64(bar.From))] += bar.Count
	}
	most := slices.Max(counts[:])
	for digits := bits.Len64(uint64(r.took.Min())); digits <= bits.Len64(uint64(r.took.Max())); digits++ {
		bar := strings.Repeat("█", int((counts[digits]*barWidth+most-1)/most))
		line := fmt.Sprintf("  < %8v %10d %s", round(1<<digits), counts[digits], bar)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(out)
}

func (r *Measurement) printVerdict(out io.Writer) {
	for _, finding := range r.Broken.Findings {
		fmt.Fprintln(out, "FAIL ", finding)
	}
	if found := r.Broken.count(); found > maxFindings {
		fmt.Fprintf(out, "FAIL  %d in all\n", found)
	}
	if r.Broken.count() == 0 && r.IDs > 0 {
		fmt.Fprintf(out, "ok    %d IDs, all unique\n", r.IDs)
		for _, what := range r.InOrder {
			fmt.Fprintln(out, "ok    in order:", what)
		}
	}
	for _, text := range r.NotLookedAt {
		fmt.Fprintln(out, "note ", text)
	}
	if r.NotMade > 0 {
		fmt.Fprintf(out, "note  %s due while no caller was free; increase --callers\n", format.Of(r.NotMade, "request"))
	}
}

// round rounds a time to three digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
