package worker

import (
	"sync"
	"time"
)

// window decides which of a worker's loads are asked for, and when. At most limit of them are
// open at a time: asked for less than openTime ago, and not answered. The others wait, in the
// order in which they need it.
//
// The limit adapts to whoever answers, as that of a sender in TCP does. Each answer raises it by
// one, so it doubles in the time that an answer takes. If none at all came for openTime, it
// falls to leastOpen. So loads are asked for as fast as loaders answer; and while nobody
// answers, a worker asks for leastOpen loads a second, however many it wants. What waits costs
// nobody anything, is never out of date, and is asked for in order of need when somebody answers
// again.
//
// Loads of tags that this process was never granted wait in a line of their own, and may
// have an eighth of what is open: their names may be made up.
type window struct {
	ask func(tag string, seq uint64) bool // asks, unless the load is no longer wanted

	mu       sync.Mutex
	loads    map[string]*asking // that wait or are open, by tag
	waiting  priority[*asking]
	unknown  priority[*asking]
	opened   []*asking // in order; some are answered by now
	open     int
	lookups  int // open ones of unknown tags
	limit    int
	answered time.Time // the latest answer
}

const (
	openTime  = time.Second
	leastOpen = 5
	mostOpen  = 128

	unknownShare = 8 // the part of what is open that unknown tags may have
)

// asking is a load that waits or is open.
type asking struct {
	standing
	tag   string
	first bool      // of a tag that was never granted
	seq   uint64    // does not change while it is open
	since time.Time // when it was asked for; zero while it waits
	again bool      // to be asked for once more when it is no longer open
	need  time.Time // then
}

func newWindow(ask func(tag string, seq uint64) bool) *window {
	return &window{ask: ask, loads: make(map[string]*asking), limit: leastOpen}
}

// add adds a load, or if it is there a later one of its tag, whose segment is missed from the
// given time on. One that has been overtaken by a later one is ignored. First says that the
// tag was never granted to this process.
func (w *window) add(tag string, seq uint64, need time.Time, first bool) {
	w.mu.Lock()
	l := w.loads[tag]
	if l != nil && seq < l.seq {
		w.mu.Unlock()
		return
	}
	if l != nil && !l.since.IsZero() && l.seq != seq { // which has ended
		l.again = false
		w.end(l)
		l = nil
	}
	switch {
	case l == nil:
		w.line(&asking{tag: tag, seq: seq, first: first}, need)
	case l.since.IsZero():
		l.seq = seq
		w.lineOf(l).advance(l, need)
	default:
		l.again, l.need = true, need
	}
	w.mu.Unlock()
	w.advance()
}

// close records an answer to a load.
func (w *window) close(tag string, seq uint64) {
	w.mu.Lock()
	w.answered = time.Now()
	w.limit = min(w.limit+1, mostOpen)
	if l := w.loads[tag]; l != nil && !l.since.IsZero() && l.seq == seq {
		l.again = false
		w.end(l)
	}
	w.mu.Unlock()
	w.advance()
}

// line has a load wait. w.mu is held.
func (w *window) line(l *asking, need time.Time) {
	w.loads[l.tag] = l
	w.lineOf(l).push(l, need)
}

func (w *window) lineOf(l *asking) *priority[*asking] {
	if l.first {
		return &w.unknown
	}
	return &w.waiting
}

// end makes room for another load. w.mu is held.
func (w *window) end(l *asking) {
	w.open--
	if l.first {
		w.lookups--
	}
	if l.again {
		w.line(&asking{tag: l.tag, seq: l.seq, first: l.first}, l.need)
	} else {
		delete(w.loads, l.tag)
	}
	l.since = time.Time{}
}

// tick ends what was open for too long.
func (w *window) tick() {
	w.mu.Lock()
	now := time.Now()
	for len(w.opened) > 0 {
		l := w.opened[0]
		if !l.since.IsZero() {
			if now.Sub(l.since) < openTime {
				break
			}
			if now.Sub(w.answered) >= openTime {
				w.limit = leastOpen
			}
			w.end(l)
		}
		w.opened[0] = nil
		w.opened = w.opened[1:]
	}
	w.mu.Unlock()
	w.advance()
}

// advance asks for loads as long as there is room.
func (w *window) advance() {
	for {
		l := w.next()
		if l == nil {
			return
		}
		if !w.ask(l.tag, l.seq) {
			w.drop(l)
		}
	}
}

// next opens the load that comes next, if there is room for it.
func (w *window) next() *asking {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l *asking
	switch {
	case w.open >= w.limit:
		return nil
	case w.unknown.len() > 0 && w.lookups < max(1, w.limit/unknownShare):
		l = w.unknown.pop()
		w.lookups++
	case w.waiting.len() > 0:
		l = w.waiting.pop()
	default:
		return nil
	}
	l.since = time.Now()
	w.open++
	w.opened = append(w.opened, l)
	return l
}

// drop ends a load that is not wanted.
func (w *window) drop(l *asking) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.since.IsZero() {
		w.end(l)
	}
}

// isOpen reports whether a load is open.
func (w *window) isOpen(tag string, seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.loads[tag]
	return l != nil && l.seq == seq && !l.since.IsZero()
}

// silent reports whether nobody has answered for some time.
func (w *window) silent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.answered) >= openTime
}
