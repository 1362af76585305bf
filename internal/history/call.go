// Package history records requests for IDs with their replies, and checks the
// replies: no ID twice, and IDs in order where order is promised. `idworker
// bench` and testing/nemesis use it.
package history

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idworker/idworker/messages"
)

// CallKind is the kind of a call. Packages may define further kinds.
type CallKind string

// The kinds of callers that use the Go client.
const (
	Single    CallKind = "single"    // one ID of a tag
	Batch     CallKind = "batch"     // many
	Strict    CallKind = "strict"    // of a strict tag
	Snowflake CallKind = "snowflake" // snowflake IDs
)

// Call is a request for IDs with its reply. Times are since the start of the
// run, by a monotonic clock.
type Call struct {
	Kind CallKind
	// Empty for snowflake IDs, and for nothing else.
	Tag            string
	Sent, Received time.Duration
	Count          int64 // IDs requested
	// In the order of the reply; empty after an error.
	Ranges []messages.Range
	Err    string
}

func (c *Call) first() int64 { return c.Ranges[0].First }
func (c *Call) last() int64  { return c.Ranges[len(c.Ranges)-1].Last }

// MaxCount bounds the IDs of a call: callers request fewer at once.
const MaxCount = 1_000_000_000

// ErrReply is wrapped by the errors of [Call.Check].
var ErrReply = errors.New("NOT A REPLY")

// Check validates the reply alone: ascending ranges from 1 on, with the
// requested number of IDs, at most [MaxCount].
func (c *Call) Check() error {
	last, n := int64(0), int64(0)
	for _, r := range c.Ranges {
		if r.First <= last || r.Last < r.First {
			return fmt.Errorf("%w: %v: not ascending from 1", ErrReply, c)
		}
		last, n = r.Last, n+r.Len()
	}
	if n != c.Count || n < 1 || n > MaxCount {
		return fmt.Errorf("%w: %v: %d IDs, requested %d, allowed is 1 to %d", ErrReply, c, n, c.Count, MaxCount)
	}
	return nil
}

// String formats the call as a line of a history:
//
//	strict invoice.1 1200345678 1200845678 3 7-8,12
//	single order.1 1200345678 6200845678 1 - context deadline exceeded
//
// that is kind, tag (or - for snowflake IDs), the times of the request and the
// reply in nanoseconds, the number of requested IDs, and their ranges, or the
// error.
func (c *Call) String() string {
	answer := "- " + strings.ReplaceAll(c.Err, "\n", " ")
	if len(c.Ranges) > 0 {
		ranges := make([]string, len(c.Ranges))
		for i, r := range c.Ranges {
			ranges[i] = r.String()
		}
		answer = strings.Join(ranges, ",")
	}
	return fmt.Sprintf("%s %s %d %d %d %s", c.Kind, cmp.Or(c.Tag, "-"), c.Sent, c.Received, c.Count, answer)
}
