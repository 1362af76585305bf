package order

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idworker/idworker/messages"
)

// Call is an answered request.
type Call struct {
	Tag            string
	Sent, Received time.Time
	Count          int64            // of IDs requested
	Ranges         []messages.Range // in the order of the answer
}

func (c Call) first() int64 { return c.Ranges[0].First }
func (c Call) last() int64  { return c.Ranges[len(c.Ranges)-1].Last }

func (c Call) String() string { return fmt.Sprintf("%v of %s", c.Ranges, c.Tag) }

// Check returns an error for each tag and kind of fault in a history, with an
// example.
func Check(history []Call) error {
	var errs []error
	for _, c := range history {
		if err := c.check(); err != nil {
			return err // the rest of the checks rely on it
		}
	}
	for _, calls := range byTag(history) {
		errs = append(errs, checkOrder(calls), checkDistinct(calls))
	}
	return errors.Join(errs...)
}

// check checks an answer alone: ascending IDs from 1, as many as requested. The
// type bounds the highest ID.
func (c Call) check() error {
	before, n := int64(0), int64(0)
	for _, r := range c.Ranges {
		if r.First <= before || r.Last < r.First {
			return fmt.Errorf("NOT A REPLY: %v: not ascending from 1", c)
		}
		before, n = r.Last, n+r.Last-r.First+1
	}
	if n != c.Count || n == 0 {
		return fmt.Errorf("NOT A REPLY: %v: %d IDs, asked for %d", c, n, c.Count)
	}
	if c.Received.Before(c.Sent) {
		return fmt.Errorf("NOT A HISTORY: %v was received %v before it was sent", c, c.Sent.Sub(c.Received))
	}
	return nil
}

func byTag(history []Call) map[string][]Call {
	tags := make(map[string][]Call)
	for _, c := range history {
		tags[c.Tag] = append(tags[c.Tag], c)
	}
	return tags
}

// checkOrder compares each call with the highest ID received before it was
// sent.
func checkOrder(calls []Call) error {
	bySent := slices.SortedFunc(slices.Values(calls), func(a, b Call) int { return a.Sent.Compare(b.Sent) })
	byReceived := slices.SortedFunc(slices.Values(calls), func(a, b Call) int { return a.Received.Compare(b.Received) })
	var highest *Call
	for _, c := range bySent {
		for len(byReceived) > 0 && byReceived[0].Received.Before(c.Sent) {
			if highest == nil || byReceived[0].last() > highest.last() {
				highest = &byReceived[0]
			}
			byReceived = byReceived[1:]
		}
		if highest != nil && c.first() <= highest.last() {
			return fmt.Errorf("NOT ASCENDING: %v, sent %v after %v had been received", c, c.Sent.Sub(highest.Received), *highest)
		}
	}
	return nil
}

// checkDistinct finds ranges that overlap.
func checkDistinct(calls []Call) error {
	var ranges []messages.Range
	for _, c := range calls {
		ranges = append(ranges, c.Ranges...)
	}
	slices.SortFunc(ranges, func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].First <= ranges[i-1].Last {
			return fmt.Errorf("DUPLICATE: %v and %v of %s", ranges[i-1], ranges[i], calls[0].Tag)
		}
	}
	return nil
}
