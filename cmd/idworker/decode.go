package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/snowflake"
)

// decodeCmd takes snowflake IDs apart, or says which there can be of a time. It connects to nothing: flags say which layout they
// have.
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
		return explain.Usage(errors.New("want either IDs to take apart or --from, not both"))
	case d.From != nil:
		return d.printRange(out, layout)
	case d.To != nil:
		return explain.Usage(errors.New("--to is the end of a time whose beginning --from names"))
	case len(d.IDs) == 0:
		return explain.Usage(errors.New("want IDs to take apart, or --from"))
	}
	return d.takeApart(out, layout)
}

func (d *decodeCmd) takeApart(out output, layout snowflake.Layout) error {
	found := decoded{Layout: layout.String(), Ends: layout.End().UTC().Format(time.DateOnly), IDs: []decodedID{}}
	var bad []error
	for _, text := range d.IDs {
		id, err := parseID(text)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		found.IDs = append(found.IDs, decodedID{
			ID: int64(id), Time: idTime(layout, layout.Time(id)),
			Datacenter: layout.Datacenter(id), Worker: layout.WorkerID(id), Sequence: layout.Sequence(id),
		})
	}
	return errors.Join(out.Print(found), errors.Join(bad...))
}

// decoded is what IDs say.
type decoded struct {
	Layout string      `json:"layout"`
	Ends   string      `json:"ends"` // a date
	IDs    []decodedID `json:"ids"`
}

type decodedID struct {
	ID         int64  `json:"id,string"`
	Time       string `json:"time"`
	Datacenter int64  `json:"datacenter"`
	Worker     int64  `json:"worker"`
	Sequence   int64  `json:"sequence"`
}

// idTime is a time as precise as the layout's IDs have it, and as a millisecond at least.
func idTime(l snowflake.Layout, t time.Time) string {
	if l.Spec().Unit%time.Millisecond != 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Text is part of report.Report.
func (d decoded) Text(out io.Writer) error {
	fmt.Fprintf(out, "layout %s, lasts until %s\n", d.Layout, d.Ends)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTIME\tDATACENTER\tWORKER\tSEQUENCE")
	for _, id := range d.IDs {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\n", id.ID, id.Time, id.Datacenter, id.Worker, id.Sequence)
	}
	return w.Flush()
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
