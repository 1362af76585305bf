package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/snowflake"
)

// printRange prints which IDs there can be of the time that the flags name.
func (d *decodeCmd) printRange(out output, layout snowflake.Layout) error {
	from, last := *d.From, *d.From
	if d.To != nil {
		if !d.To.After(from) {
			return explain.Usage(fmt.Errorf("--to %s is not after --from %s", d.To.UTC().Format(time.RFC3339Nano), from.UTC().Format(time.RFC3339Nano)))
		}
		last = d.To.Add(-1) // it is not included
	}
	found := idRange{Layout: layout.String(), Ends: layout.End().UTC().Format(time.DateOnly)}
	var err error
	if found.First, err = layout.FirstAt(from); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	if found.Last, err = layout.LastAt(last); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	found.From = idTime(layout, layout.Time(found.First))
	found.To = idTime(layout, layout.TimeAt(layout.Timestamp(found.Last)+1))
	return out.Print(found)
}

// idRange is which IDs there can be of a time.
type idRange struct {
	Layout string       `json:"layout"`
	Ends   string       `json:"ends"` // a date
	First  snowflake.ID `json:"first"`
	Last   snowflake.ID `json:"last"`
	From   string       `json:"from"` // where the first one's time unit begins
	To     string       `json:"to"`   // where the last one's ends
}

// Text is part of report.Report.
func (r idRange) Text(out io.Writer) error {
	fmt.Fprintf(out, "layout %s, lasts until %s\n", r.Layout, r.Ends)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIRST\tLAST\tFROM\tTO")
	fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", r.First, r.Last, r.From, r.To)
	return w.Flush()
}
