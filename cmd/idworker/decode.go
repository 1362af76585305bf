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

// decodeCmd decodes snowflake IDs, or prints the IDs that a period can have. It
// connects to nothing: flags give the layout.
type decodeCmd struct {
	Layout string  `help:"Layout: ${layouts}, or written out." default:"default"`
	Epoch  instant `help:"Epoch (default: the layout's)." placeholder:"2025-01-01T00:00:00Z"`

	From *instant `help:"Print the first and last possible ID from this time." placeholder:"2026-07-01T00:00:00Z" env:"-"`
	To   *instant `help:"End of that period, exclusive." placeholder:"2026-08-01T00:00:00Z" env:"-"`

	printFlags `embed:""`

	IDs []string `arg:"" optional:"" name:"id" help:"IDs, decimal or base62 (11 characters)."`
}

// Run prints a line per ID, or the range of a period.
func (d *decodeCmd) Run(out output) error {
	layout, err := snowflakeFlags{Layout: d.Layout, Epoch: d.Epoch}.layout()
	switch {
	case err != nil:
		return err
	case d.From != nil && len(d.IDs) > 0:
		return problem.Usage(errors.New("give either IDs or --from, not both"))
	case d.From != nil:
		return d.printRange(out, layout)
	case d.To != nil:
		return problem.Usage(errors.New("--to needs --from"))
	case len(d.IDs) == 0:
		return problem.Usage(errors.New("give IDs to decode, or --from"))
	}
	return d.takeApart(out, layout)
}

// ofLayout begins both reports.
type ofLayout struct {
	Layout string `json:"layout"`
	Ends   string `json:"ends"` // a date
}

func newOfLayout(l snowflake.Layout) ofLayout {
	return ofLayout{l.String(), l.End().UTC().Format(time.DateOnly)}
}

func (o ofLayout) print(out io.Writer) *tabwriter.Writer {
	fmt.Fprintf(out, "layout %s, until %s\n", o.Layout, o.Ends)
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
	if len(found.IDs) == 0 {
		return errors.Join(bad...)
	}
	// Any other layout was chosen on purpose.
	if odd > 0 && layout == snowflake.Default() {
		found.Warning = fmt.Sprintf("%d of %d IDs with a time in the future or on the default layout's first day; set --layout or --epoch if theirs differ", odd, len(found.IDs))
	}
	return errors.Join(out.Print(found), errors.Join(bad...))
}

// decoded is the report about IDs.
type decoded struct {
	ofLayout
	IDs []decodedID `json:"ids"`
	// Set if this is probably the wrong layout.
	Warning string `json:"warning,omitempty"`
}

type decodedID struct {
	ID         int64  `json:"id,string"`
	Time       string `json:"time"`
	Datacenter int64  `json:"datacenter"`
	Worker     int64  `json:"worker"`
	Sequence   int64  `json:"sequence"`
}

// Text implements report.
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

// printRange prints the IDs that the period of --from and --to can have.
func (d *decodeCmd) printRange(out output, layout snowflake.Layout) error {
	from := time.Time(*d.From)
	last := from
	if d.To != nil {
		to := time.Time(*d.To)
		if !to.After(from) {
			return problem.Usage(fmt.Errorf("--to %s must be after --from %s", to.UTC().Format(time.RFC3339Nano), from.UTC().Format(time.RFC3339Nano)))
		}
		last = to.Add(-1) // --to is exclusive
	}
	found := periodIDs{ofLayout: newOfLayout(layout)}
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

// periodIDs is the report about a period.
type periodIDs struct {
	ofLayout
	First snowflake.ID `json:"first"`
	Last  snowflake.ID `json:"last"`
	From  string       `json:"from"` // start of First's time unit
	To    string       `json:"to"`   // end of Last's time unit
}

// Text implements report.
func (r periodIDs) Text(out io.Writer) error {
	w := r.print(out)
	fmt.Fprintln(w, "FIRST\tLAST\tFROM\tTO")
	fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", r.First, r.Last, r.From, r.To)
	return w.Flush()
}

// idTime formats a time with the precision of the layout's IDs, at least
// milliseconds.
func idTime(l snowflake.Layout, t time.Time) string {
	if l.Spec().Unit%time.Millisecond != 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// parseID accepts both forms. A base62 ID has 11 characters; if all of them are
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
