package allocator

import (
	"sync"
	"time"
)

// agenda holds the tags that Tick has to visit, by the moment at which there may be
// something to do: a request's deadline, or the next try of a load. Tick costs nothing
// for the tags whose moment has not come, of which there may be 100,000 in an outage.
//
// A tag may be on it more than once, or for nothing. The visit finds that out.
type agenda struct {
	mu     sync.Mutex
	visits map[int64][]*tag // by the moment, in units of agendaUnit
	next   int64            // the first moment that has not been visited to its end
}

// agendaUnit is the agenda's resolution. A visit that comes too early is repeated.
const agendaUnit = 10 * time.Millisecond

// add plans a visit for the given time, or before.
func (a *agenda) add(t *tag, at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.visits == nil {
		a.visits = make(map[int64][]*tag)
	}
	moment := max(a.next, int64(at/agendaUnit))
	a.visits[moment] = append(a.visits[moment], t)
}

// take removes the tags that have to be visited by now, and returns them.
func (a *agenda) take(now time.Duration) (due []*tag) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := int64(now / agendaUnit)
	if last-a.next > int64(len(a.visits)) { // the clock has made a leap
		for moment := range a.visits {
			due = append(due, a.remove(moment, last)...)
		}
	} else {
		for moment := a.next; moment <= last; moment++ {
			due = append(due, a.remove(moment, last)...)
		}
	}
	a.next = last
	return due
}

// remove removes the tags of a moment, unless it lies after the last.
func (a *agenda) remove(moment, last int64) []*tag {
	if moment > last {
		return nil
	}
	tags := a.visits[moment]
	delete(a.visits, moment)
	return tags
}
