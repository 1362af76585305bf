package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// decodeCmd takes snowflake IDs apart. It connects to nothing: flags say which layout they
// have.
type decodeCmd struct {
	Layout string    `help:"Layout of the IDs: default, twitter, sonyflake, or written out." default:"default"`
	Epoch  time.Time `help:"When time 0 was, if not what the layout says." placeholder:"2025-01-01T00:00:00Z"`

	IDs []string `arg:"" name:"id" help:"Snowflake IDs, decimal or base62 (11 characters)."`
}

// Run prints a line per ID.
func (d *decodeCmd) Run(out output) error {
	layout, err := snowflakeFlags{Layout: d.Layout, Epoch: d.Epoch}.layout()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "layout %s, lasts until %s\n", layout, layout.End().UTC().Format(time.DateOnly))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTIME\tDATACENTER\tWORKER\tSEQUENCE")
	var bad []error
	for _, text := range d.IDs {
		id, err := parseID(text)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\n", id, layout.Time(id).UTC().Format("2006-01-02T15:04:05.000Z"),
			layout.Datacenter(id), layout.WorkerID(id), layout.Sequence(id))
	}
	return errors.Join(w.Flush(), errors.Join(bad...))
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
