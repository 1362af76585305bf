package supply

import (
	"time"

	"github.com/idworker/idworker/internal/priority"
)

// window decides which of a worker's loads are requested, and when. At most
// limit loads are open at a time: requested less than openTime ago, and not
// answered. The others wait, ordered by need.
//
// The limit adapts to the loaders, like a TCP sender's. Each answer raises it
// by one, so it doubles in the time that an answer takes. After openTime
// without answers, it falls to leastOpen. An answer that reports a failing
// store does not count, and such a load stays open.
//
// So a worker requests loads as fast as loaders serve them. During an outage,
// it requests leastOpen loads a second, regardless of the number of wanted
// loads and the speed of refusals. Waiting loads cost nothing, are never out of
// date, and are requested in order of need when the outage ends.
//
// Loads of tags that this process was never granted wait in a queue of their
// own, and may take an eighth of the limit: their names may be made up.
//
// The loop owns the window, so it needs no lock.
type window struct {
	began    time.Time               // the queues count from it
	loads    map[string]*pendingLoad // waiting or open, by tag
	waiting  priority.Queue[*pendingLoad]
	unknown  priority.Queue[*pendingLoad]
	opened   []*pendingLoad // in order; some may be answered
	open     int
	lookups  int // open loads of unknown tags
	limit    int
	answered time.Time // when the latest answer came
}

const (
	openTime  = time.Second
	leastOpen = 5
	mostOpen  = 128

	unknownShare = 8 // fraction of the limit that unknown tags may take
)

// pendingLoad is a waiting or open load.
type pendingLoad struct {
	place priority.Place[*pendingLoad]
	tag   string
	first bool      // its tag was never granted
	seq   uint64    // does not change while the load is open
	since time.Time // when it was requested; zero while it waits
	again bool      // request it once more when it is no longer open
	need  time.Time // for again
}

func newWindow() *window {
	return &window{began: time.Now(), loads: make(map[string]*pendingLoad), limit: leastOpen}
}

// add adds a load whose segment is needed by the given time. It replaces an
// earlier load of the tag, and is ignored if a later load exists. First means
// that this process was never granted the tag.
func (w *window) add(tag string, seq uint64, need time.Time, first bool) {
	l := w.loads[tag]
	if l != nil && l.isOpen() && l.seq < seq { // the open load has ended
		w.end(l, false)
		l = nil
	}
	switch {
	case l == nil:
		w.enqueue(&pendingLoad{tag: tag, seq: seq, first: first}, need)
	case seq < l.seq:
	case l.isOpen():
		l.again, l.need = true, need
	default:
		l.seq = seq
		w.queueOf(l).Put(&l.place, min(need.Sub(w.began), l.place.At()))
	}
}

// next opens the load that is needed first, for the caller to request. It
// returns nil without a waiting load or without room.
func (w *window) next() *pendingLoad {
	var l *pendingLoad
	switch {
	case w.open >= w.limit:
		return nil
	case w.unknown.Len() > 0 && w.lookups < max(1, w.limit/unknownShare):
		l = w.pop(&w.unknown)
		w.lookups++
	case w.waiting.Len() > 0:
		l = w.pop(&w.waiting)
	default:
		return nil
	}
	l.since = time.Now()
	w.open++
	w.opened = append(w.opened, l)
	return l
}

// answer records a loader's answer to a load.
func (w *window) answer(tag string, seq uint64) {
	w.answered = time.Now()
	w.limit = min(w.limit+1, mostOpen)
	if l := w.loads[tag]; l != nil && l.isOpen() && l.seq == seq {
		w.end(l, false)
	}
}

// mayRepeat reports whether an open load may be requested once more before
// openTime has passed: if there is room, and no other load waits for it.
func (w *window) mayRepeat(tag string, seq uint64) bool {
	l := w.loads[tag]
	return l != nil && l.isOpen() && l.seq == seq && w.open < w.limit && w.queueOf(l).Len() == 0
}

// tick ends the loads that were open for too long.
func (w *window) tick() {
	now := time.Now()
	for len(w.opened) > 0 {
		if l := w.opened[0]; l.isOpen() {
			if now.Sub(l.since) < openTime {
				return
			}
			if now.Sub(w.answered) >= openTime {
				w.limit = leastOpen
			}
			w.end(l, l.again)
		}
		w.opened[0] = nil
		w.opened = w.opened[1:]
	}
}

// end makes room for another load. If again is set, the load waits once more.
func (w *window) end(l *pendingLoad, again bool) {
	w.open--
	if l.first {
		w.lookups--
	}
	l.since = time.Time{}
	delete(w.loads, l.tag)
	if again {
		w.enqueue(&pendingLoad{tag: l.tag, seq: l.seq, first: l.first}, l.need)
	}
}

func (w *window) enqueue(l *pendingLoad, need time.Time) {
	w.loads[l.tag] = l
	l.place.Value = l
	w.queueOf(l).Put(&l.place, need.Sub(w.began))
}

func (w *window) pop(q *priority.Queue[*pendingLoad]) *pendingLoad {
	l := q.First().Value
	q.Remove(&l.place)
	return l
}

func (w *window) queueOf(l *pendingLoad) *priority.Queue[*pendingLoad] {
	if l.first {
		return &w.unknown
	}
	return &w.waiting
}

func (l *pendingLoad) isOpen() bool { return !l.since.IsZero() }
