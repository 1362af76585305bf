package history

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/messages"
)

// Kind says who asked, and for what.
type Kind string

// The kinds of callers.
const (
	Single     Kind = "single"     // one ID of a tag, with the Go client
	Batch      Kind = "batch"      // many
	Raw        Kind = "raw"        // of a tag, a request that is sent once
	Prefetched Kind = "prefetched" // IDs of a tag that were in memory
	Strict     Kind = "strict"     // of a strict tag
	Template   Kind = "template"   // one ID of a tag that may be new
	Snowflake  Kind = "snowflake"  // snowflake IDs
	Event      Kind = "event"      // an enriched event; the tag is that of its ID
	HTTP       Kind = "http"       // of a tag, by HTTP, one worker after the other until there is an answer
	HTTPStrict Kind = "http-strict"
)

// IsStrict reports whether the tag is strict: all calls of such kinds are in one order.
func (k Kind) IsStrict() bool { return k == Strict || k == HTTPStrict }

// Call is a request for IDs, and its answer. Times are since the run began, of one clock that only goes
// forward.
type Call struct {
	Kind           Kind
	Tag            string // empty for snowflake IDs, and for nothing else
	Sent, Received time.Duration
	Count          int64            // IDs asked for
	Ranges         []messages.Range // in the order of the answer; none if there was an error
	Err            string
}

func (c *Call) first() int64 { return c.Ranges[0].First }
func (c *Call) last() int64  { return c.Ranges[len(c.Ranges)-1].Last }

// Took is how long the caller waited.
func (c *Call) Took() time.Duration { return c.Received - c.Sent }

// MaxCount is how many IDs a call may be for: nobody asks for more at once.
const MaxCount = 1_000_000_000

// Check looks at the answer for itself: ascending ranges from 1 on, with as many IDs as were asked for, at
// most [MaxCount].
// The error wraps [ErrReply].
func (c *Call) Check() error {
	before, n := int64(0), int64(0)
	for _, r := range c.Ranges {
		if r.First <= before || r.Last < r.First {
			return fmt.Errorf("%w: %v: not ascending from 1", ErrReply, c)
		}
		before, n = r.Last, n+r.Len()
	}
	if c.Count > MaxCount {
		return fmt.Errorf("%w: %v: %d IDs, allowed is %d", ErrReply, c, c.Count, MaxCount)
	}
	if n != c.Count || n == 0 {
		return fmt.Errorf("%w: %v: %d IDs, asked for %d", ErrReply, c, n, c.Count)
	}
	return nil
}

// String is the call as a line of a history:
//
//	strict invoice.1 1200345678 1200845678 3 7-8,12
//	single order.1 1200345678 6200845678 1 - context deadline exceeded
//
// that is kind, tag (or - for snowflake IDs), when it was sent and answered in nanoseconds, how many IDs were
// asked for, and their ranges, or the error.
func (c *Call) String() string { return string(c.appendLine(nil)) }

func (c *Call) appendLine(to []byte) []byte {
	to = append(append(to, c.Kind...), ' ')
	tag := c.Tag
	if c.Kind == Snowflake {
		tag = "-"
	}
	to = append(append(to, tag...), ' ')
	for _, n := range []int64{int64(c.Sent), int64(c.Received), c.Count} {
		to = append(strconv.AppendInt(to, n, 10), ' ')
	}
	for i, r := range c.Ranges {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, r.First, 10)
		if r.Last > r.First {
			to = strconv.AppendInt(append(to, '-'), r.Last, 10)
		}
	}
	if len(c.Ranges) == 0 {
		to = append(append(to, "- "...), strings.ReplaceAll(c.Err, "\n", " ")...)
	}
	return to
}

// kinds are all that there are.
var kinds = []Kind{Single, Batch, Raw, Prefetched, Strict, Template, Snowflake, Event, HTTP, HTTPStrict}

// parseCall reads a line of a history.
func parseCall(line string) (*Call, error) {
	fields := strings.SplitN(line, " ", 7)
	if len(fields) < 6 {
		return nil, fmt.Errorf("%.100q has %d fields, want 6 or an error too", line, len(fields))
	}
	c := &Call{Kind: Kind(fields[0]), Tag: fields[1]}
	if !slices.Contains(kinds, c.Kind) {
		return nil, fmt.Errorf("unknown kind %.20q, allowed are %v", fields[0], kinds)
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
	var err error
	c.Ranges, err = parseRanges(fields[5])
	return c, err
}

func parseRanges(text string) (ranges []messages.Range, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			last = first
		}
		from, err1 := strconv.ParseInt(first, 10, 64)
		to, err2 := strconv.ParseInt(last, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		ranges = append(ranges, messages.Range{First: from, Last: to})
	}
	return ranges, nil
}
