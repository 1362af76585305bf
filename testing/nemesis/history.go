package nemesis

import (
	"errors"
	"fmt"
	"io"

	"github.com/idworker/idworker/internal/history"
)

// Call is a request for IDs, and its answer.
type Call = history.Call

// Kind says who asked, and for what.
type Kind = history.Kind

// The kinds of callers.
const (
	Single     = history.Single
	Batch      = history.Batch
	Raw        = history.Raw
	Prefetched = history.Prefetched
	Strict     = history.Strict
	Template   = history.Template
	Snowflake  = history.Snowflake
	Event      = history.Event
	HTTP       = history.HTTP
	HTTPStrict = history.HTTPStrict
)

// CheckHistory checks a recorded history alone: no ID twice, strict tags and snowflake IDs in order. The
// error says that it is not a history, or could not be read. If it breaks off, the error is
// [history.ErrBrokenOff], and the checker has seen all of it.
func CheckHistory(r io.Reader) (*Checker, error) {
	h, err := history.NewReader(r)
	if err != nil {
		return nil, err
	}
	c := NewChecker(h.Layout(), nil)
	for {
		call, err := h.Next()
		if err == nil {
			c.Check(call)
			continue
		}
		c.Finish()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return c, err
	}
}

// Report says what a checker has seen.
func (c *Checker) Report() string {
	ids, answers, ranges := c.Counts()
	return fmt.Sprintf("%d IDs in %d answers checked, kept as %d ranges; %d violations", ids, answers, ranges, len(c.Violations()))
}
