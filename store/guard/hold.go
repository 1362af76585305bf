package guard

import (
	"errors"
	"time"
)

// holdFor is how long nothing is granted after this loader has raised what the register had
// lost: every other loader that lives notices within that time, and knows of ranges that this
// one has not heard of.
const holdFor = 3 * time.Second

var errHeld = errors.New("the register of what was granted went back; nothing is granted until all that lives had time to raise it")

// hold is the time from the proof that the register went back until grants may go on.
type hold struct {
	begun bool      // and what was lost is not restored yet
	until time.Time // when it is over, once it is
}

func (h *hold) begin() { h.begun = true }

// end says that this loader has done its part. It reports whether there was a hold.
func (h *hold) end() bool {
	begun := h.begun
	if begun {
		*h = hold{until: time.Now().Add(holdFor)}
	}
	return begun
}

// on reports whether nothing may be granted.
func (h *hold) on() bool { return h.begun || time.Now().Before(h.until) }

// checkHold says why nothing may be granted, if so.
func (g *Guard) checkHold() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold.on() {
		return errHeld
	}
	return nil
}
