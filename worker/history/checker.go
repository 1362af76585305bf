package history

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// The errors of [Checker.Check] wrap these, or [ErrReply].
var (
	ErrDuplicate = errors.New("DUPLICATE") // an ID was issued before
	// Not above an ID that was received before the request was sent.
	ErrOrder = errors.New("NOT ASCENDING")
)

// Checker finds duplicate IDs, and IDs that are out of order. It is not safe
// for concurrent use.
type Checker struct {
	layout snowflake.Layout
	// All IDs so far, by tag; snowflake IDs have the tag "".
	issued map[string]*roaring64.Bitmap
	// By order key; times and IDs ascend.
	highest map[string][]highest
}

// highest is a reply with the highest ID so far at its arrival.
type highest struct {
	received time.Duration
	last     int64
}

// NewChecker returns a checker for snowflake IDs of a layout. With the zero
// Layout it does not check their order.
func NewChecker(layout snowflake.Layout) *Checker {
	return &Checker{layout: layout, issued: make(map[string]*roaring64.Bitmap), highest: make(map[string][]highest)}
}

// Check returns all faults of a call that was answered with IDs. Calls come in
// the order of their replies. inOrder names the calls that share an order with
// this call: the tag, if it is strict, and otherwise the tag and the answering
// worker; "" if none does. For snowflake IDs, their worker ID replaces it.
func (c *Checker) Check(call *Call, inOrder string) (wrong []error) {
	if err := call.Check(); err != nil {
		return []error{err}
	}
	for _, r := range call.Ranges {
		if id, twice := c.issue(call.Tag, r); twice {
			wrong = append(wrong, fmt.Errorf("%w: %v: ID %d was issued before", ErrDuplicate, call, id))
		}
	}
	if call.Kind == Snowflake && !c.layout.IsZero() {
		id := snowflake.ID(call.first())
		inOrder = fmt.Sprintf("snowflake %d %d", c.layout.Datacenter(id), c.layout.WorkerID(id))
	}
	if inOrder != "" {
		if err := c.checkOrder(inOrder, call); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// issue adds a range to the IDs of a tag, and returns its first ID that was
// there before.
func (c *Checker) issue(tag string, r messages.Range) (id int64, twice bool) {
	issued := c.issued[tag]
	if issued == nil {
		issued = roaring64.New()
		c.issued[tag] = issued
	}
	if r.First == r.Last { // faster than a set of size 1
		return r.First, !issued.CheckedAdd(uint64(r.First))
	}
	ids := roaring64.New()
	ids.AddRange(uint64(r.First), uint64(r.Last)+1)
	both := roaring64.And(issued, ids)
	issued.AddRange(uint64(r.First), uint64(r.Last)+1)
	if both.IsEmpty() {
		return 0, false
	}
	return int64(both.Minimum()), true
}

// longest bounds the age of a request whose reply is compared with all earlier
// replies. Older requests are compared only with replies from before that
// bound, which may miss a fault but never invents any.
const longest = time.Minute

// checkOrder returns an error if a call's IDs are not above all IDs received
// before it was sent. It keeps 16 bytes for each reply of the last minute.
func (c *Checker) checkOrder(key string, call *Call) (err error) {
	answers := c.highest[key]
	before := func(t time.Duration) int { // latest reply received by then
		return sort.Search(len(answers), func(i int) bool { return answers[i].received >= t }) - 1
	}
	if i := before(call.Sent); i >= 0 && answers[i].last >= call.first() {
		err = fmt.Errorf("%w: %v, sent %v after %d was received", ErrOrder, call, call.Sent-answers[i].received, answers[i].last)
	}
	if len(answers) == 0 || answers[len(answers)-1].last < call.last() {
		answers = append(answers, highest{call.Received, call.last()})
	}
	if old := before(call.Received - longest); old > len(answers)/2 {
		// The last outdated reply stays.
		answers = slices.Clone(answers[old:])
	}
	c.highest[key] = answers
	return err
}
