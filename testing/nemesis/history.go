package nemesis

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// Call is a request for IDs, and its answer.
type Call = history.Call

// Kind is the caller's kind, and the IDs that it requests.
type Kind = history.CallKind

// The kinds of callers.
const (
	Single     = history.Single
	Batch      = history.Batch
	Strict     = history.Strict
	Snowflake  = history.Snowflake
	Raw        = Kind("raw")        // of a tag, a request that is sent once
	Prefetched = Kind("prefetched") // IDs of a tag that were in memory
	Template   = Kind("template")   // an ID of a tag that may be new
	Event      = Kind("event")      // an enriched event; the tag is that of its ID
	HTTP       = Kind("http")       // of a tag, by HTTP, worker by worker until there is an answer
	HTTPStrict = Kind("http-strict")
)

// isStrict reports whether the tag is strict.
func isStrict(k Kind) bool { return k == Strict || k == HTTPStrict }

// ErrBrokenOff is the error at the end of a history whose writer was killed.
var ErrBrokenOff = errors.New("the history breaks off")

// CheckHistory checks a recorded history alone, compressed or not: no ID twice,
// strict tags and snowflake IDs in order. It returns an error if the file is no
// history, or unreadable. If the file is cut short, the error wraps
// [ErrBrokenOff], and the checker has seen all of it.
func CheckHistory(r io.Reader) (*Judge, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		zip, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(zip)
	}
	layout, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	c := NewJudge(layout, nil)
	defer c.Finish()
	var latest Call
	for number := 2; ; number++ {
		line, err := in.ReadString('\n')
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF) && line != "":
			return c, fmt.Errorf("%w after line %d", ErrBrokenOff, number-1)
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return c, err
		}
		call, err := parseCall(strings.TrimSuffix(line, "\n"))
		if err == nil && call.Received < latest.Received {
			err = fmt.Errorf("answered at %d, before the line above: lines are in the order of the answers", int64(call.Received))
		}
		if err != nil {
			return c, fmt.Errorf("line %d: %w", number, err)
		}
		latest = *call
		c.Check(call)
	}
}

// readHeader returns the layout that the first line names, zero if it is
// unknown.
func readHeader(in *bufio.Reader) (snowflake.Layout, error) {
	line, err := in.ReadString('\n')
	text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), history.Header)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return snowflake.Layout{}, err
	case !ok:
		return snowflake.Layout{}, fmt.Errorf("not a history: its first line is %.60q, want %q and the layout", line, history.Header)
	case text == "unknown":
		return snowflake.Layout{}, nil
	}
	return snowflake.ParseLayout(text)
}

// callerKinds are all kinds.
var callerKinds = []Kind{Single, Batch, Raw, Prefetched, Strict, Template, Snowflake, Event, HTTP, HTTPStrict}

// parseCall reads a line of a history, as [history.Call.String] writes it.
func parseCall(line string) (*Call, error) {
	fields := strings.SplitN(line, " ", 7)
	if len(fields) < 6 {
		return nil, fmt.Errorf("%.100q has %d fields, want 6 or an error too", line, len(fields))
	}
	c := &Call{Kind: Kind(fields[0]), Tag: fields[1]}
	if !slices.Contains(callerKinds, c.Kind) {
		return nil, fmt.Errorf("unknown kind %.20q, allowed are %v", fields[0], callerKinds)
	}
	if c.Kind == Snowflake {
		c.Tag = ""
	}
	for i, to := range []*int64{(*int64)(&c.Sent), (*int64)(&c.Received), &c.Count} {
		n, err := strconv.ParseInt(fields[2+i], 10, 64)
		if err != nil {
			return nil, err
		}
		*to = n
	}
	if c.Sent > c.Received {
		return nil, fmt.Errorf("sent at %d, after it was answered at %d", int64(c.Sent), int64(c.Received))
	}
	if fields[5] == "-" {
		c.Err = strings.Join(fields[6:], " ")
		return c, nil
	}
	for part := range strings.SplitSeq(fields[5], ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			last = first
		}
		from, err1 := strconv.ParseInt(first, 10, 64)
		to, err2 := strconv.ParseInt(last, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		c.Ranges = append(c.Ranges, messages.Range{First: from, Last: to})
	}
	return c, nil
}

// Report summarizes the history that a checker has seen.
func (c *Judge) Report() string {
	ids, answers := c.Counts()
	return fmt.Sprintf("%d IDs in %d answers checked; %d violations", ids, answers, len(c.Violations()))
}
