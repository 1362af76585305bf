package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/loads"
)

// turns decides which tag a loader serves next. Jobs wait in the queue of their tag, and tags
// wait for their turn in the order in which they need it:
//
//	fresh     by the moment from which a segment is missed, see [loads.Event.Slack]
//	retrying  tags whose latest call failed, by the end of their pause; they get few of
//	          the turns at a time, so that rows that hang do not hold up the others
//
// Tags that neither this loader nor the worker knows may not exist. They are fresh in a line of their own,
// which has every other turn, and at most three quarters of those under way.
//
// While the store fails, only probes have a turn: the first fresh tag, and if there is none,
// the tag that failed the longest ago and the first unknown tag by turns. So one tag that always fails does not keep the store
// from being found well. When it is, the tags that failed meanwhile are fresh again.
//
// A tag has one turn at a time. A queue's tag is forgotten when nothing waits for it.
type turns struct {
	most   int // turns at a time
	health *health
	known  func(tag string) bool
	freed  chan struct{} // holds one if there may be room again

	mu        sync.Mutex
	queues    map[string]*queue
	fresh     priority[*queue]
	unknown   priority[*queue]
	retrying  priority[*queue]
	waiting   int // jobs
	underWay  int
	retries   int  // turns under way of tags that had failed
	lookups   int  // and of unknown tags
	alternate bool // the latest turn of a fresh tag was one of these
	closed    bool
}

// The bounds of what waits. What does not find room stays in the load stream, where it is not
// lost if the loader dies, and where another loader finds it.
const (
	enoughWaiting = 2048  // the stream is not asked for more
	mostWaiting   = 65536 // plain messages are dropped, and asked for again
)

// The pause after a tag's call has failed doubles from the first to the second.
const (
	retryPauseMin = 50 * time.Millisecond
	retryPauseMax = 5 * time.Second
)

// knownShare is the part of the turns that is kept for tags that this loader knows.
const knownShare = 4

// retryShare is the part of the turns that tags which failed may have at a time.
const retryShare = 8

// queue holds the jobs of one tag.
type queue struct {
	standing
	tag     string
	unknown bool // it had its turn, or waits for it, in the line of unknown tags
	waiting []job
	serving []job
	again   []job     // loads of serving that were asked for again meanwhile
	began   time.Time // the latest turn

	failures int       // calls in a row, since the store was last found well
	failedAt time.Time // when the latest of them began; zero if the tag has worked since
	alone    int       // how often it failed, and the store worked for others since then
}

// isKnown reports whether a worker knows the tag of the jobs.
func isKnown(jobs []job) bool {
	return slices.ContainsFunc(jobs, func(j job) bool { return !j.event.Unknown })
}

// job is one load event. The stream keeps it until it is acked, and gives it to another loader
// if that does not happen before the given time. So what has waited for longer is not served.
type job struct {
	event loads.Event
	msg   acker // nil if the event came as a plain message, or is acked
	until time.Time
}

// acker is the part of a message of the stream that the loader uses.
type acker interface {
	Ack() error
	Nak() error
}

func newTurns(most int, h *health) *turns {
	return &turns{most: most, health: h, known: func(string) bool { return true }, freed: make(chan struct{}, 1), queues: make(map[string]*queue)}
}

// add adds a job. The event of a load that is being served is acked. If the call fails, it says
// that the load is still wanted. A load that was replaced by a later one of the same worker is
// forgotten.
func (t *turns) add(j job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[j.event.Tag]
	switch {
	case t.closed:
		j.nak()
		return
	case q == nil && t.waiting >= mostWaiting:
		return
	case q == nil:
		q = &queue{tag: j.event.Tag, standing: standing{index: -1}}
		t.queues[q.tag] = q
	case isLoadOf(q.serving, j.event):
		j.ack()
		j.until = time.Now().Add(loadEventAge)
		q.again = append(q.again, j)
		return
	}
	if q.enqueue(j) {
		t.waiting++
	}
	t.rank(q, time.Now().Add(j.event.Slack()))
}

// isSuspect reports whether it is the tag that fails, and not the store. To fail once before the
// store works is no more than to have been in an outage.
func (q *queue) isSuspect() bool { return q.alone >= 2 }

// isLoadOf reports whether the same load of the same worker is among the jobs.
func isLoadOf(jobs []job, event loads.Event) bool {
	return slices.ContainsFunc(jobs, func(j job) bool {
		return j.event.Instance == event.Instance && j.event.Seq == event.Seq
	})
}

// enqueue adds a job to those that wait, or puts it in the place of the one that the worker has
// waiting already, and reports whether there is one more now.
func (q *queue) enqueue(j job) bool {
	i := slices.IndexFunc(q.waiting, func(other job) bool { return other.event.Instance == j.event.Instance })
	if i < 0 {
		q.waiting = append(q.waiting, j)
		return true
	}
	old := q.waiting[i]
	if j.event.Seq < old.event.Seq {
		j.event = old.event
	}
	if j.msg == nil && old.msg != nil { // the stream still holds it
		j.msg, j.until = old.msg, old.until
	}
	q.waiting[i] = j
	return false
}

// ack tells the stream that the event is taken.
func (j *job) ack() {
	if j.msg != nil {
		_ = j.msg.Ack() // if it is lost, the event comes again, which costs a range
		j.msg = nil
	}
}

// nak has the stream give the event to another loader at once.
func (j *job) nak() {
	if j.msg != nil {
		_ = j.msg.Nak()
	}
}

// rank gives a tag its place in the queue, or a better one than it has. A tag that is being
// served gets its place afterwards, one that is retrying has it.
func (t *turns) rank(q *queue, need time.Time) {
	switch {
	case q.serving != nil || q.failures > 0:
	case q.index < 0:
		t.line(q, need)
	case q.unknown:
		t.unknown.advance(q, need)
	default:
		t.fresh.advance(q, need)
	}
}

// line has a fresh tag wait for its turn.
func (t *turns) line(q *queue, need time.Time) {
	if q.unknown = !t.known(q.tag) && !isKnown(q.waiting); q.unknown {
		t.unknown.push(q, need)
	} else {
		t.fresh.push(q, need)
	}
}

// popFresh takes the fresh tag that is next, nil if none may have a turn.
func (t *turns) popFresh() *queue {
	mayLookUp := t.unknown.len() > 0 && t.lookups < max(1, t.most-t.most/knownShare)
	t.alternate = mayLookUp && (t.fresh.len() == 0 || !t.alternate)
	switch {
	case t.alternate:
		return t.unknown.pop()
	case t.fresh.len() > 0:
		return t.fresh.pop()
	}
	return nil
}

// next begins the next turn and returns its tag's queue, with the jobs in serving. If nothing
// has a turn now it returns nil, and when to look again, if not only after the end of a turn.
func (t *turns) next() (q *queue, again time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		q, again = t.choose()
		if q == nil {
			return nil, again
		}
		if t.begin(q) {
			return q, again
		}
	}
}

// choose takes the tag that has the next turn from its queue.
func (t *turns) choose() (q *queue, again time.Time) {
	if t.underWay >= t.most || t.fresh.len()+t.unknown.len()+t.retrying.len() == 0 {
		return nil, again
	}
	if !t.health.isUp() {
		return t.chooseProbe()
	}
	if t.retrying.len() > 0 && t.retries < max(1, t.most/retryShare) {
		if again = t.retrying.first().at; !again.After(time.Now()) {
			return t.retrying.pop(), again
		}
	}
	return t.popFresh(), again
}

// chooseProbe does that while the store fails.
func (t *turns) chooseProbe() (q *queue, again time.Time) {
	if again = t.health.nextProbe(); again.After(time.Now()) {
		return nil, again
	}
	// A tag that fails may do so by itself, and an unknown one may only be looked up, so
	// the two take turns.
	t.alternate = t.unknown.len() > 0 && (t.retrying.len() == 0 || !t.alternate)
	switch {
	case t.fresh.len() > 0:
		return t.fresh.pop(), again
	case t.alternate:
		return t.unknown.pop(), again
	}
	return t.retrying.pop(), again
}

// begin begins the turn of a tag with the jobs that are still this loader's, and reports
// whether there are any.
func (t *turns) begin(q *queue) bool {
	now := time.Now()
	t.waiting -= len(q.waiting)
	q.serving, q.waiting = slices.DeleteFunc(q.waiting, func(j job) bool { return !now.Before(j.until) }), nil
	if len(q.serving) == 0 {
		delete(t.queues, q.tag)
		t.signal()
		return false
	}
	for i := range q.serving {
		if j := &q.serving[i]; j.msg != nil {
			j.ack()
			j.until = now.Add(loadEventAge) // if it fails
		}
	}
	t.underWay++
	if q.unknown {
		t.lookups++
	}
	if q.failures > 0 {
		t.retries++
	}
	if !q.failedAt.IsZero() && t.health.workedSince(q.failedAt) {
		q.alone++
	}
	q.began = now
	if !t.health.isUp() {
		t.health.beginProbe()
		t.signal()
	}
	return true
}

// end ends the turn of a tag. What is left has to be tried again.
func (t *turns) end(q *queue, left []job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.underWay--
	if q.unknown {
		t.lookups--
		q.unknown = false
	}
	if q.failures > 0 {
		t.retries--
	}
	wanted := slices.DeleteFunc(q.again, func(j job) bool { return !isLoadOf(left, j.event) })
	q.serving, q.again = nil, nil
	for _, j := range slices.Concat(left, wanted) {
		if q.enqueue(j) {
			t.waiting++
		}
	}
	switch {
	case len(left) > 0:
		pause := min(retryPauseMin<<min(q.failures, 10), retryPauseMax)
		q.failures++
		q.failedAt = q.began
		t.retrying.push(q, now.Add(pause))
	case len(q.waiting) > 0:
		q.failures, q.failedAt, q.alone = 0, time.Time{}, 0
		t.line(q, now.Add(q.slack()))
	default:
		delete(t.queues, q.tag)
	}
	t.signal()
}

// slack is the least of the waiting events.
func (q *queue) slack() time.Duration {
	least := q.waiting[0].event.Slack()
	for _, j := range q.waiting {
		least = min(least, j.event.Slack())
	}
	return least
}

// recover makes the tags fresh again that failed while the store did. Those that failed while it
// worked for others stay where they are.
func (t *turns) recover() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var still priority[*queue]
	for t.retrying.len() > 0 {
		q := t.retrying.pop()
		if q.isSuspect() {
			still.push(q, q.at)
			continue
		}
		q.failures = 0
		t.line(q, now.Add(q.slack()))
	}
	t.retrying = still
	t.signal()
}

// signal tells awaitRoom to look again.
func (t *turns) signal() {
	select {
	case t.freed <- struct{}{}:
	default:
	}
}

// awaitRoom returns how many events to ask the stream for: many, or while the store fails one at a
// time, until there are several tags to probe it with, for one of them may fail by itself. It
// returns 0 if ctx ends.
func (t *turns) awaitRoom(ctx context.Context) int {
	for {
		if n := t.room(); n > 0 {
			return n
		}
		select {
		case <-t.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

func (t *turns) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	up := t.health.isUp()
	switch {
	case up && t.waiting <= enoughWaiting:
		return pullBatch
	case !up && t.fresh.len()+t.unknown.len() == 0 && t.retrying.len() < failuresOfAnOutage:
		return 1
	}
	return 0
}

// anyFailed reports whether there are tags whose latest call failed.
func (t *turns) anyFailed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retrying.len()+t.retries > 0
}

// idle reports whether nothing waits for a turn that it could have.
func (t *turns) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting == 0 && t.underWay == 0 || !t.health.isUp()
}

// close gives up all that waits, or comes later, so that other loaders get it at once. Plain
// messages are asked for again.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, q := range t.queues {
		for _, j := range q.waiting {
			j.nak()
		}
	}
	t.queues, t.waiting = make(map[string]*queue), 0
	t.fresh, t.unknown, t.retrying = priority[*queue]{}, priority[*queue]{}, priority[*queue]{}
}
