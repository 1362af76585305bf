package allocator

import "slices"

// Withdraw drops the parked requests of the tag that are not wanted any more, see
// [Allocator.TakeOrParkWhile], without an answer. What they had been loaded for, or held up, goes to those
// behind them.
func (a *Allocator) Withdraw(name string) {
	if t := a.find(name); t != nil {
		a.update(t, t.dropUnwanted)
	}
}

// dropUnwanted needs the tag's mu.
func (t *tag) dropUnwanted() []reply {
	t.busy.parked = slices.DeleteFunc(t.busy.parked, func(w waiter) bool {
		gone := w.wanted != nil && !w.wanted()
		if gone {
			t.busy.demand -= w.n
		}
		return gone
	})
	if len(t.busy.parked) == 0 {
		t.busy.parked = nil
	}
	return t.serveParked()
}
