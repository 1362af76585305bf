package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/idworker/idworker/messages"
)

// idPrinter prints IDs: as text as they come, and as JSON all together.
type idPrinter struct {
	out    output
	lines  *bufio.Writer
	ranges bool // instead of single IDs
	had    int64
	all    printedIDs
	err    error
}

// newIDPrinter returns a printer for IDs of a tag; "" for snowflake IDs.
func newIDPrinter(out output, tag string, ranges bool) *idPrinter {
	return &idPrinter{out: out, lines: bufio.NewWriter(out), ranges: ranges, all: printedIDs{Tag: tag}}
}

// add adds the IDs of one answer.
func (p *idPrinter) add(ranges []messages.Range) {
	for _, r := range ranges {
		p.had += r.Len()
	}
	if p.out.JSON {
		p.all.ranges = append(p.all.ranges, ranges...)
		return
	}
	p.err = errors.Join(p.err, p.print(ranges))
}

func (p *idPrinter) print(ranges []messages.Range) error {
	if p.ranges {
		for _, r := range ranges {
			fmt.Fprintln(p.lines, r)
		}
		return p.lines.Flush()
	}
	for id := range messages.IDs(ranges) {
		fmt.Fprintln(p.lines, id)
	}
	return p.lines.Flush()
}

// end prints what remains to be printed. The error says how many of the n IDs there were before it.
func (p *idPrinter) end(failed error, n int64) error {
	if failed != nil && p.had > 0 {
		failed = fmt.Errorf("%w; %d of %d IDs are printed", failed, p.had, n)
	}
	if p.out.JSON && (failed == nil || p.had > 0) {
		p.all.single = !p.ranges
		p.err = p.out.Print(p.all)
	}
	return errors.Join(failed, p.err)
}

// printedIDs is what JSON has.
type printedIDs struct {
	Tag    string
	ranges []messages.Range
	single bool
}

// firstLast is one of its ranges.
type firstLast struct {
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
}

// MarshalJSON has either ids or ranges. A tag is missing for snowflake IDs.
func (r printedIDs) MarshalJSON() ([]byte, error) {
	var out struct {
		Tag    string      `json:"tag,omitempty"`
		IDs    []string    `json:"ids,omitempty"`
		Ranges []firstLast `json:"ranges,omitempty"`
	}
	out.Tag = r.Tag
	if !r.single {
		for _, one := range r.ranges {
			out.Ranges = append(out.Ranges, firstLast{one.First, one.Last})
		}
		return json.Marshal(out)
	}
	for id := range messages.IDs(r.ranges) {
		out.IDs = append(out.IDs, strconv.FormatInt(id, 10))
	}
	return json.Marshal(out)
}

// Text is part of report.Report; text is printed as it comes.
func (r printedIDs) Text(io.Writer) error { return nil }
