package bench

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
)

// table is printed at the end.
var table results

type results struct {
	mu   sync.Mutex
	rows []row
}

// row is a figure: the subject's, the baseline's, and the bar's verdict.
type row struct {
	what, unit        string
	subject, baseline float64
	beside            string // the baseline's name; empty: no baseline
	ratio             float64
	bar               bar
	note              string
}

// bar is a bound for a row's ratio, or for its figure if there is no baseline.
type bar struct {
	limit   float64
	atLeast bool // else at most
}

func atMost(limit float64) bar  { return bar{limit, false} }
func atLeast(limit float64) bar { return bar{limit, true} }

// verdict compares a value with the bar.
func (b bar) verdict(value float64) string {
	switch {
	case b == bar{}:
		return ""
	case b.atLeast && value >= b.limit:
		return fmt.Sprintf("≥ %g: kept", b.limit)
	case b.atLeast:
		return fmt.Sprintf("≥ %g: MISSED", b.limit)
	case value <= b.limit:
		return fmt.Sprintf("≤ %g: kept", b.limit)
	}
	return fmt.Sprintf("≤ %g: MISSED", b.limit)
}

func (r *results) add(rows ...row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, rows...)
}

// print prints the rows, if there are any.
func (r *results) print(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	fmt.Fprintln(w, "\nWHAT\tFIGURE\tBASELINE\t\tRATIO\tBAR\t")
	for _, row := range r.rows {
		value, baseline, ratio := row.subject, "", ""
		if row.beside != "" {
			value = row.ratio
			baseline, ratio = figure(row.baseline)+" "+row.unit, fmt.Sprintf("%.2f", row.ratio)
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s\n", row.what, figure(row.subject), row.unit,
			baseline, row.beside, ratio, row.bar.verdict(value), row.note)
	}
}

// figure shows three digits or more.
func figure(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
