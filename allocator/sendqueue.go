package allocator

import (
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/priority"
)

// sendQueue decides which load is sent next, and when. It holds
//
//   - the loads that wait, in three lanes, each in order of need;
//   - the places of the loads that were sent less than Config.ReAsk ago and got
//     no answer;
//   - the loads to be sent once more in their place;
//   - the times at which Tick visits tags;
//   - the replies that Replies returns.
//
// The number of places adapts to the loaders, like a TCP sender's window. Each
// answer of a loader raises it by one, so it doubles in the time that an answer
// takes. After Config.ReAsk without answers it falls to fewestPlaces. So a
// worker sends loads as fast as loaders serve them, and five a second during an
// outage, regardless of the number of loads and of their callers' patience: a
// place belongs to a sending, whatever becomes of its tag.
//
// The names of unknown tags may be made up, so an eighth of the places is
// enough for them. One place is kept for refills: urgent loads may be many, and
// go round for ever if no loader can serve them.
//
// A tag's lock is taken before mu, never after it.
type sendQueue struct {
	patience time.Duration // how long a sending has its place

	mu       sync.Mutex
	visits   priority.Queue[*tag]
	waiting  [lanes]priority.Queue[*tag]
	again    []repetition
	sent     []sending // that have places, in order
	taken    [lanes]int
	places   int
	answered time.Duration // when the latest answer came
	replies  []Reply
	ready    chan struct{}
}

// lane is a line of waiting loads.
type lane int8

const (
	noLane  lane = iota
	unknown      // tags without a grant
	urgent       // requests wait for the load, or the next ones will
	refill       // of a buffer that is not empty
	lanes
)

const (
	fewestPlaces = 5
	mostPlaces   = 128

	// unknownShare is the part of the places for unknown tags.
	unknownShare = 8
)

// sending is a load that has a place.
type sending struct {
	seq  uint64
	lane lane
	at   time.Duration
}

// repetition is a tag whose open load is to be sent once more. Unless it must,
// it needs a place that is free, and no load that waits in its lane.
type repetition struct {
	tag  *tag
	lane lane
	must bool
}

// position is where the queue has a tag, as agreed with its state. It is
// guarded by the tag's mu.
type position struct {
	lane  lane
	need  time.Duration // the order in its lane
	visit time.Duration // 0: none
}

// takenOut is the visit of a tag that due has returned, so that settle puts it
// back even if it is to be visited at the same time again.
const takenOut = -1

func newSendQueue(patience time.Duration) sendQueue {
	return sendQueue{patience: patience, places: fewestPlaces, ready: make(chan struct{}, 1)}
}

// settle brings the queue in line with the state of a tag, and takes over its
// replies. The caller holds the tag's mu. A change that concerns neither takes
// no lock.
func (q *sendQueue) settle(t *tag) {
	b, want := t.busy, t.position(q.patience)
	repeat := b.load.repeat
	if want == b.position && len(b.replies) == 0 && repeat == notAgain {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b.visit.Value, b.place.Value = t, t
	if want.visit > 0 {
		q.visits.Put(&b.visit, want.visit)
	} else {
		q.visits.Remove(&b.visit)
	}
	if want.lane != b.position.lane {
		q.waiting[b.position.lane].Remove(&b.place)
	}
	if want.lane != noLane {
		q.waiting[want.lane].Put(&b.place, want.need)
	}
	if repeat != notAgain {
		q.again = append(q.again, repetition{t, t.lane(), repeat == mustAgain})
		b.load.repeat = notAgain
	}
	if want.lane != noLane || repeat != notAgain || len(b.replies) > 0 {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	q.replies = append(q.replies, b.replies...)
	b.position, b.replies = want, nil
}

// due takes out the tags that have to be visited by now. The caller sets their
// visit to takenOut.
func (q *sendQueue) due(now time.Duration) (tags []*tag) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for first := q.visits.First(); first != nil && first.At() <= now; first = q.visits.First() {
		q.visits.Remove(first)
		tags = append(tags, first.Value)
	}
	return tags
}

// next takes out the tag whose load is to be sent now, once more if again is
// set; nil if there is none, or no place.
func (q *sendQueue) next(now time.Duration) (t *tag, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.sent) > 0 && now-q.sent[0].at >= q.patience { // without an answer
		if now-q.answered >= q.patience {
			q.places = fewestPlaces
		}
		q.free(0)
	}
	for len(q.again) > 0 {
		r := q.again[0]
		if q.again = q.again[1:]; r.must || len(q.sent) < q.places && q.waiting[r.lane].First() == nil {
			return r.tag, true
		}
	}
	from := q.choose()
	if from == noLane {
		return nil, false
	}
	first := q.waiting[from].First()
	q.waiting[from].Remove(first)
	return first.Value, false
}

// choose returns the lane of the load to be sent next.
func (q *sendQueue) choose() lane {
	urgents, refills := q.waiting[urgent].First(), q.waiting[refill].First()
	switch {
	case len(q.sent) >= q.places:
		return noLane
	case q.waiting[unknown].First() != nil && q.taken[unknown] < max(1, q.places/unknownShare):
		return unknown
	case urgents == nil && refills == nil:
		return noLane
	case refills == nil:
		return urgent
	case urgents == nil, q.taken[refill] == 0, refills.At() < urgents.At():
		return refill
	}
	return urgent
}

// take gives a load a place, from its sending on.
func (q *sendQueue) take(s sending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = append(q.sent, s)
	q.taken[s.lane]++
}

func (q *sendQueue) free(i int) {
	q.taken[q.sent[i].lane]--
	q.sent = slices.Delete(q.sent, i, i+1)
}

// answer records that a loader has answered load seq.
func (q *sendQueue) answer(seq uint64, now time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answered = now
	q.places = min(q.places+1, mostPlaces)
	if i := slices.IndexFunc(q.sent, func(s sending) bool { return s.seq == seq }); i >= 0 {
		q.free(i)
	}
}
