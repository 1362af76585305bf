package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/snowflake"
)

// decodeCmd takes snowflake IDs apart, or says which there can be of a time. It connects to nothing: flags say
// which layout they have.
type decodeCmd struct {
	Layout string    `help:"Layout of the IDs: ${layouts}, or written out." default:"default"`
	Epoch  time.Time `help:"When time 0 was, if not what the layout says." placeholder:"2025-01-01T00:00:00Z"`

	From *time.Time `help:"Instead of taking IDs apart, print the first and the last ID that there can be of this moment, or of the time from then up to --to." placeholder:"2026-07-01T00:00:00Z" env:"-"`
	To   *time.Time `help:"End of that time, not included." placeholder:"2026-08-01T00:00:00Z" env:"-"`

	printFlags `embed:""`

	IDs []string `arg:"" optional:"" name:"id" help:"Snowflake IDs, decimal or base62 (11 characters)."`
}

// Run prints a line per ID, or one for a time.
func (d *decodeCmd) Run(out output) error {
	layout, err := snowflakeFlags{Layout: d.Layout, Epoch: d.Epoch}.layout()
	switch {
	case err != nil:
		return err
	case d.From != nil && len(d.IDs) > 0:
		return problem.Usage(errors.New("want either IDs to take apart or --from, not both"))
	case d.From != nil:
		return d.printRange(out, layout)
	case d.To != nil:
		return problem.Usage(errors.New("--to is the end of a time whose beginning --from names"))
	case len(d.IDs) == 0:
		return problem.Usage(errors.New("want IDs to take apart, or --from"))
	}
	return d.takeApart(out, layout)
}

// ofLayout is what both reports begin with.
type ofLayout struct {
	Layout string `json:"layout"`
	Ends   string `json:"ends"` // a date
}

func newOfLayout(l snowflake.Layout) ofLayout {
	return ofLayout{l.String(), l.End().UTC().Format(time.DateOnly)}
}

func (o ofLayout) print(out io.Writer) *tabwriter.Writer {
	fmt.Fprintf(out, "layout %s, lasts until %s\n", o.Layout, o.Ends)
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
}

func (d *decodeCmd) takeApart(out output, layout snowflake.Layout) error {
	found := decoded{ofLayout: newOfLayout(layout), IDs: []decodedID{}}
	var bad []error
	odd := 0
	for _, text := range d.IDs {
		id, err := parseID(text)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		at := layout.Time(id)
		if at.After(time.Now().Add(time.Minute)) || at.Before(layout.Spec().Epoch.AddDate(0, 0, 1)) {
			odd++
		}
		found.IDs = append(found.IDs, decodedID{
			ID: int64(id), Time: idTime(layout, at),
			Datacenter: layout.Datacenter(id), Worker: layout.WorkerID(id), Sequence: layout.Sequence(id),
		})
	}
	if odd > 0 && layout == snowflake.Default() { // else somebody chose it
		found.Warning = fmt.Sprintf("%d of %d IDs are of the future, or of the first day of the default layout; if they have another one, name it with --layout or --epoch", odd, len(found.IDs))
	}
	return errors.Join(out.Print(found), errors.Join(bad...))
}

// decoded is what IDs say.
type decoded struct {
	ofLayout
	IDs     []decodedID `json:"ids"`
	Warning string      `json:"warning,omitempty"` // that they hardly have this layout
}

type decodedID struct {
	ID         int64  `json:"id,string"`
	Time       string `json:"time"`
	Datacenter int64  `json:"datacenter"`
	Worker     int64  `json:"worker"`
	Sequence   int64  `json:"sequence"`
}

// Text is part of report.
func (d decoded) Text(out io.Writer) error {
	w := d.print(out)
	fmt.Fprintln(w, "ID\tTIME\tDATACENTER\tWORKER\tSEQUENCE")
	for _, id := range d.IDs {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\n", id.ID, id.Time, id.Datacenter, id.Worker, id.Sequence)
	}
	if d.Warning != "" {
		fmt.Fprintln(w, d.Warning)
	}
	return w.Flush()
}

// printRange prints which IDs there can be of the time that the flags name.
func (d *decodeCmd) printRange(out output, layout snowflake.Layout) error {
	from, last := *d.From, *d.From
	if d.To != nil {
		if !d.To.After(from) {
			return problem.Usage(fmt.Errorf("--to %s is not after --from %s", d.To.UTC().Format(time.RFC3339Nano), from.UTC().Format(time.RFC3339Nano)))
		}
		last = d.To.Add(-1) // it is not included
	}
	found := idRange{ofLayout: newOfLayout(layout)}
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
	ofLayout
	First snowflake.ID `json:"first"`
	Last  snowflake.ID `json:"last"`
	From  string       `json:"from"` // where the first one's time unit begins
	To    string       `json:"to"`   // where the last one's ends
}

// Text is part of report.
func (r idRange) Text(out io.Writer) error {
	w := r.print(out)
	fmt.Fprintln(w, "FIRST\tLAST\tFROM\tTO")
	fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", r.First, r.Last, r.From, r.To)
	return w.Flush()
}

// idTime is a time as precise as the layout's IDs have it, and as a millisecond at least.
func idTime(l snowflake.Layout, t time.Time) string {
	if l.Spec().Unit%time.Millisecond != 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// parseID reads both forms. A base62 ID always has 11 characters; if all of them are
// digits, it is read as a decimal.
func parseID(text string) (snowflake.ID, error) {
	id, err := snowflake.Parse(text)
	if err == nil {
		return id, nil
	}
	if id, base62Err := snowflake.ParseBase62(text); base62Err == nil {
		return id, nil
	}
	return 0, err
}
