package nemesis

import (
	"errors"
	"fmt"
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
	Strict     Kind = "strict"     // of a strict tag, sent once
	Template   Kind = "template"   // one ID of a tag that may be new
	Snowflake  Kind = "snowflake"  // snowflake IDs
	Event      Kind = "event"      // an enriched event; the tag is that of its ID
)

// Call is a request for IDs, and its answer. Times are since the run began, of one clock that only goes
// forward.
type Call struct {
	Kind           Kind
	Tag            string // empty for snowflake IDs
	Sent, Received time.Duration
	Count          int64            // IDs asked for
	Ranges         []messages.Range // in the order of the answer; none if there was an error
	Err            string
}

// key is what an ID is unique in.
func (c *Call) key() string {
	if c.Tag == "" {
		return string(Snowflake)
	}
	return c.Tag
}

func (c *Call) first() int64 { return c.Ranges[0].First }
func (c *Call) last() int64  { return c.Ranges[len(c.Ranges)-1].Last }

// took is how long the caller waited.
func (c *Call) took() time.Duration { return c.Received - c.Sent }

// check looks at the answer for itself.
func (c *Call) check() error {
	before, n := int64(0), int64(0)
	for _, r := range c.Ranges {
		if r.First <= before || r.Last < r.First {
			return fmt.Errorf("NOT A REPLY: %v: not ascending from 1", c)
		}
		before, n = r.Last, n+r.Len()
	}
	if n != c.Count || n == 0 {
		return fmt.Errorf("NOT A REPLY: %v: %d IDs, asked for %d", c, n, c.Count)
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
	if tag == "" {
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

// errLine is wrapped by the errors of parseCall.
var errLine = errors.New("malformed line of a history")

// parseCall reads a line of a history.
func parseCall(line string) (*Call, error) {
	fields := strings.SplitN(line, " ", 7)
	if len(fields) < 6 {
		return nil, fmt.Errorf("%w: %q", errLine, line)
	}
	c := &Call{Kind: Kind(fields[0]), Tag: fields[1]}
	if c.Tag == "-" {
		c.Tag = ""
	}
	for i, to := range []*int64{(*int64)(&c.Sent), (*int64)(&c.Received), &c.Count} {
		n, err := strconv.ParseInt(fields[2+i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errLine, err)
		}
		*to = n
	}
	if fields[5] == "-" {
		c.Err = strings.Join(fields[6:], " ")
		return c, nil
	}
	for text := range strings.SplitSeq(fields[5], ",") {
		first, last, found := strings.Cut(text, "-")
		if !found {
			last = first
		}
		from, err1 := strconv.ParseInt(first, 10, 64)
		to, err2 := strconv.ParseInt(last, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: %w", errLine, err)
		}
		c.Ranges = append(c.Ranges, messages.Range{First: from, Last: to})
	}
	return c, nil
}
