package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/worker"
)

// Print writes a view for a terminal. What processes and tags are called cannot control the terminal.
func (v View) Print(out io.Writer) error {
	p := &printer{out: out}
	workers, loaders := v.Totals.Answered()
	p.line("prefix %s, installation %s, %s", v.Prefix, cmp.Or(v.ID, "not known"), v.Taken.UTC().Format("2006-01-02 15:04:05 UTC"))
	p.line("workers %s, loaders %s, %s tags in memory, %s IDs of tags a second", workers, loaders, Count(int64(v.Totals.TagsActive)), Rate(v.Totals.Rate))
	if ends := v.Ends(); !ends.IsZero() {
		p.line("snowflake layout %s, until %s", v.Layout, forecast.Day(ends))
	}
	if len(v.Troubles) == 0 {
		p.line("all is well")
	}
	for _, t := range v.Troubles {
		p.line("%-7s  %s: %s", t.Severity, t.What, t.Text)
	}
	p.processes(v)
	p.tags(v)
	p.workerIDs(v)
	p.enrichments(v)
	return p.err
}

// printer writes lines until that fails.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, Printable(fmt.Sprintf(format, args...)))
	}
}

// table writes rows under a head, after an empty line; nothing if there are none.
func (p *printer) table(head string, rows [][]string) {
	if p.err != nil || len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s\n", strings.ReplaceAll(head, "|", "\t"))
	for _, row := range rows {
		for i := range row {
			row[i] = Printable(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	p.err = w.Flush()
}

func (p *printer) processes(v View) {
	var rows [][]string
	for _, r := range v.Processes {
		parked, id := "-", "-"
		if r.Answers() {
			parked, id = fmt.Sprint(r.Stats.Parked), "none"
		}
		if r.Stats.WorkerID != nil {
			id = fmt.Sprint(*r.Stats.WorkerID)
		}
		rows = append(rows, []string{r.Instance, r.Host, string(r.Role), state(&r), parked, id, r.Version, v.since(r.Started)})
	}
	for _, s := range v.Silent {
		what := "does not report"
		if s.Left {
			what = "gone"
		}
		rows = append(rows, []string{s.Instance, s.Host, "-", what, "-", "-", "-", "-"})
	}
	p.table("INSTANCE|HOST|ROLE|STATE|PARKED|WORKER ID|VERSION|UP", rows)
}

// state is how a process is, in a word or two.
func state(r *worker.Report) string {
	switch {
	case r.Overloads != nil && r.Overloads.Now:
		return "overloaded"
	case r.NotReady != "":
		return "not ready"
	case r.Outages != nil && r.Outages.Now:
		return "store fails"
	case r.Stats.NoLoader != "":
		return "no loader answers"
	case r.Degraded != "":
		return "degraded"
	}
	return "ready"
}

// barWidth is how many characters a full bar has.
const barWidth = 10

func (p *printer) tags(v View) {
	var rows [][]string
	for _, t := range v.Page {
		if t.Strict() {
			rows = append(rows, []string{t.Name, Rate(t.Rate), "-", "-", "-", "-", fmt.Sprint(t.Parked), t.Order, t.Forecast.First()})
			continue
		}
		full := int(barWidth * t.Full())
		rows = append(rows, []string{
			t.Name, Rate(t.Rate), "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]", Count(t.Left),
			Duration(t.Runway), Count(t.Step), fmt.Sprint(t.Parked), t.Order, t.Forecast.First(),
		})
	}
	p.table("TAG|IDS/S|BUFFER|IN MEMORY|LASTS|STEP|PARKED|ORDER|RUNS OUT", rows)
	if more := v.Matches - len(v.Page); more > 0 {
		p.line("and %s more", Count(int64(more)))
	}
}

func (p *printer) workerIDs(v View) {
	var rows [][]string
	for _, id := range v.WorkerIDs {
		if id.Instance != "" {
			rows = append(rows, []string{
				fmt.Sprint(id.Datacenter), fmt.Sprint(id.Worker), id.Instance, id.Host, fmt.Sprintf("%+d ms", id.AheadMS),
				Duration(max(id.Reserved.Sub(v.Taken).Seconds(), 0)),
			})
		}
	}
	p.table("DATACENTER|WORKER ID|HELD BY|HOST|CLOCK|RESERVED FOR", rows)
}

func (p *printer) enrichments(v View) {
	var rows [][]string
	for _, e := range v.Enrichments {
		how, lag, oldest := "at work", "not known", "-"
		if e.Stalled {
			how = "no enricher at work"
		}
		if e.Lag != nil {
			lag = Count(int64(min(*e.Lag, 1<<62)))
		}
		if !e.Oldest.IsZero() {
			oldest = v.since(e.Oldest)
		}
		rows = append(rows, []string{e.Source, e.Target, how, lag, oldest, fmt.Sprint(e.Done)})
	}
	p.table("FROM|TO|ENRICHER|WAITING|OLDEST|DONE", rows)
}

// since is how long ago something was.
func (v View) since(t time.Time) string { return Duration(max(v.Taken.Sub(t).Seconds(), 0)) }

// Printable has a ? in place of each character that is none: those that control a terminal, turn
// the direction of text, or are no text at all.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
