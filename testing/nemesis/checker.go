package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/worker/history"
)

// Judge checks every answer. Answers of a kind come in the order in which they
// were received.
type Judge struct {
	granted *Granted // nil: the worker is unknown

	mu         sync.Mutex
	history    *history.Checker
	highest    map[string]int64          // of each tag; snowflake IDs have the tag ""
	parts      map[string][]history.Call // of strict tags, for porcupine
	ids        int64
	answers    int64
	events     int64
	unknown    int64 // answers from segments whose grant was not seen
	asked      int64 // of porcupine
	undecided  int64
	violations []string
	told       func(violation string) // of each that is kept
}

// keptViolations bounds the violations kept as text; a single violation
// suffices.
const keptViolations = 100

// NewJudge returns a judge. Without grants the order of tags that are not
// strict is not looked at.
func NewJudge(layout snowflake.Layout, granted *Granted) *Judge {
	return &Judge{
		history: history.NewChecker(layout), granted: granted, highest: make(map[string]int64),
		parts: make(map[string][]history.Call), told: func(string) {},
	}
}

// Violation records that a promise was broken.
func (c *Judge) Violation(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violation(fmt.Errorf(format, args...))
}

func (c *Judge) violation(err error) {
	if len(c.violations) < keptViolations {
		c.violations = append(c.violations, err.Error())
		c.told(err.Error())
	}
}

// Violations are the violations so far.
func (c *Judge) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.violations...)
}

// Counts is how much was checked.
func (c *Judge) Counts() (ids, answers int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids, c.answers
}

// Check looks at a call.
func (c *Judge) Check(call *Call) {
	if len(call.Ranges) == 0 {
		return
	}
	var instance string
	var granted error
	if c.granted != nil && call.Tag != "" {
		instance, granted = c.granted.Holder(call.Tag, call.Ranges)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(call.Check(), granted); err != nil {
		c.violation(err)
		return
	}
	c.answers++
	c.ids += call.Count
	c.highest[call.Tag] = max(c.highest[call.Tag], call.Ranges[len(call.Ranges)-1].Last)
	inOrder := "" // IDs that were kept in memory are in no order, nor are those of events, which come in batches
	switch {
	case isStrict(call.Kind):
		inOrder = call.Tag
		c.addToPart(call)
	case call.Kind == Prefetched, call.Kind == Event, call.Kind == Snowflake: // any worker may have answered
	case instance != "":
		inOrder = instance + " " + call.Tag
	case c.granted != nil:
		c.unknown++
	}
	for _, wrong := range c.history.Check(call, inOrder) {
		c.violation(wrong)
	}
}

// porcupine gets a piece of each part of a strict tag's history.
const (
	partSize  = 20_000
	pieceSize = 400
)

func (c *Judge) addToPart(call *Call) {
	part := append(c.parts[call.Tag], *call)
	if len(part) >= partSize {
		c.checkPart(part)
		part = nil
	}
	c.parts[call.Tag] = part
}

func (c *Judge) checkPart(part []history.Call) {
	at := rand.IntN(max(1, len(part)-pieceSize))
	err := order.Linearizable(part[at:min(len(part), at+pieceSize)], 2*time.Second)
	c.asked++
	switch {
	case errors.Is(err, order.ErrUndecided):
		c.undecided++
	case err != nil:
		c.violation(err)
	}
}

// Finish checks the rest.
func (c *Judge) Finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, part := range c.parts {
		if len(part) > 0 {
			c.checkPart(part)
		}
	}
	clear(c.parts)
}

// Highest is the highest ID of a tag, 0 if there is none.
func (c *Judge) Highest(tag string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.highest[tag]
}
