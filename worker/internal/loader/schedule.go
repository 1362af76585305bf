package loader

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/priority"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// schedule decides which tag is called for next. Jobs wait in the queue of
// their tag, and queues wait in three lanes, which take turns:
//
//	known    by the time when a segment is needed, see [loadmsg.Event.Slack]
//	unknown  likewise, tags new to this loader and the worker: they may not
//	         exist
//	slow     slow tags, in order of arrival, with an eighth of the slots, and
//	         all that no other tag needs
//
// While the breaker is open, known tags go first, and those that were already
// refused count as slow: their rows may hang. A tag has at most one call at a
// time. A queue without jobs is dropped.
type schedule struct {
	slots int // calls at a time
	share int // of them, for slow tags
	store store.Reserver
	calls context.Context // of all calls
	began time.Time       // the lanes count from it

	mu      sync.Mutex
	queues  map[string]*queue
	known   lane
	unknown lane
	slow    lane
	turn    int64    // counts calls; an int of 32 bits would overflow within weeks
	waiting int      // jobs
	running []*queue // in starting order
	pace    callPace
	breaker breaker
	refused map[string]bool // known tags, while the breaker is open
	alarm   *time.Timer     // when a call may begin
	closed  bool
}

// lane is a line of queues.
type lane struct {
	priority.Queue[*queue]
	running int   // calls for tags of the lane
	turn    int64 // the number of the latest call
}

// queue holds the jobs of a tag.
type queue struct {
	place   priority.Place[*queue] // in its lane
	tag     string
	lane    *lane // its latest
	waiting []job
	serving []job

	// State of the call for serving.
	ctx   context.Context
	end   context.CancelCauseFunc
	began time.Time
}

// job is a load event that waits for a call. It is claimed when the call
// begins, and released if the loader stops before.
type job struct {
	event loadmsg.Event
	hold
	added time.Time
}

const (
	enoughWaiting = 2048 // jobs; no more are pulled from the stream
	// jobs; plain messages are dropped, and the worker retries
	mostWaiting = 65536
)

// errEnded is the cause of calls that were ended early.
var errEnded = errors.New("took too long while other tags waited")

func newSchedule(cfg Config, calls context.Context) *schedule {
	slots := max(2, cfg.Reservations)
	return &schedule{
		slots:   slots,
		share:   max(1, slots/8),
		store:   cfg.Store,
		calls:   calls,
		began:   time.Now(),
		queues:  make(map[string]*queue),
		refused: make(map[string]bool),
		pace:    newPace(cfg.Timeout),
		breaker: newBreaker(cfg.Log, cfg.StoreName),
		alarm:   time.NewTimer(math.MaxInt64),
	}
}

// add adds a job. If its load is already being served, that call answers it.
func (s *schedule) add(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		j.release()
		return
	}
	q := s.queues[j.event.Tag]
	if q == nil {
		if s.waiting >= mostWaiting {
			return
		}
		q = &queue{tag: j.event.Tag}
		q.place.Value = q
		s.queues[q.tag] = q
	}
	sent := func(other job) bool { return other.event.Instance == j.event.Instance }
	if i := slices.IndexFunc(q.serving, sent); i >= 0 && q.serving[i].event.Seq == j.event.Seq {
		j.claim()
		return
	}
	if i := slices.IndexFunc(q.waiting, sent); i >= 0 {
		q.waiting[i].replace(j)
	} else {
		q.waiting = append(q.waiting, j)
		s.waiting++
	}
	if q.serving == nil {
		s.enqueue(q)
	}
}

// replace updates a job to the later load of its worker. It keeps the message
// of the stream.
func (j *job) replace(by job) {
	if by.event.Seq >= j.event.Seq {
		j.event = by.event
	}
	if by.inStream() || !j.inStream() {
		j.hold = by.hold
	}
}

// isKnown reports whether a worker has been granted the tag of the jobs before.
func isKnown(jobs []job) bool {
	return slices.ContainsFunc(jobs, func(j job) bool { return !j.event.Unknown })
}

// enqueue puts a queue into its lane, or moves it forward there.
func (s *schedule) enqueue(q *queue) {
	_, isSlow := s.pace.slow[q.tag]
	isSlow = isSlow || s.refused[q.tag]
	need := time.Since(s.began)
	if !isSlow {
		slack := q.waiting[0].event.Slack()
		for _, j := range q.waiting {
			slack = min(slack, j.event.Slack())
		}
		need += slack
	}
	if q.place.Queued() {
		q.lane.Put(&q.place, min(need, q.place.At()))
		return
	}
	switch {
	case isSlow:
		q.lane = &s.slow
	case !s.store.Known(q.tag) && !isKnown(q.waiting):
		q.lane = &s.unknown
	default:
		q.lane = &s.known
	}
	q.lane.Put(&q.place, need)
}

// next begins the next call and returns its queue, with the jobs in serving and
// its context. It returns nil if no call may begin now; the alarm fires when a
// call may. While the breaker is open, calls are probes, and next also returns
// the jobs that have waited for a probe.
func (s *schedule) next() (q *queue, unserved []job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 || s.closed {
		return nil, nil
	}
	open := s.breaker.open
	if open {
		wait := s.breaker.probe()
		s.alarm.Reset(cmp.Or(wait, probePause))
		if wait > 0 {
			return nil, nil
		}
	}
	for q == nil {
		from := s.choose(open)
		if from == nil {
			break
		}
		q = from.First().Value
		from.Remove(&q.place)
		q = s.begin(q)
	}
	if open {
		unserved = s.sweep()
	}
	return q, unserved
}

// choose returns the lane of the next call, or nil.
func (s *schedule) choose(open bool) *lane {
	// Hanging calls must not delay a probe, so it needs no slot.
	if open {
		// Slow tags may fail alone, and unknown tags may only cause a look-up.
		if s.known.First() != nil {
			return &s.known
		}
		return inTurn(&s.unknown, &s.slow)
	}
	switch {
	case len(s.running) >= s.slots:
		s.endOldest(s.known.Len() + s.unknown.Len())
		return nil
	case s.slow.running >= s.share && (s.known.First() != nil || s.unknown.First() != nil):
		return inTurn(&s.known, &s.unknown)
	}
	return inTurn(&s.known, &s.unknown, &s.slow)
}

// inTurn returns the non-empty lane that had its turn the longest ago, or nil.
func inTurn(lanes ...*lane) (next *lane) {
	for _, l := range lanes {
		if l.First() != nil && (next == nil || l.turn < next.turn) {
			next = l
		}
	}
	return next
}

// endOldest ends the oldest calls that take too long, as many as tags wait.
// Calls in the slots of slow tags may take the whole timeout.
func (s *schedule) endOldest(tags int) {
	limit, slow := s.pace.limit(), 0
	for _, q := range s.running {
		if tags <= 0 {
			return
		}
		if q.lane == &s.slow && slow < s.share {
			slow++
			continue
		}
		if left := limit - time.Since(q.began); left > 0 {
			s.alarm.Reset(left)
			return
		}
		tags--
		q.end(errEnded)
	}
}

// begin begins a call for the jobs that this loader still holds, and claims
// them. It returns nil if there are none.
func (s *schedule) begin(q *queue) *queue {
	s.waiting -= len(q.waiting)
	jobs := slices.DeleteFunc(q.waiting, func(j job) bool { return !j.claim() })
	q.waiting = nil
	if len(jobs) == 0 {
		delete(s.queues, q.tag)
		return nil
	}
	s.turn++
	q.lane.turn = s.turn
	q.lane.running++
	s.running = append(s.running, q)
	q.serving, q.began = jobs, time.Now()
	q.ctx, q.end = context.WithCancelCause(s.calls)
	return q
}

// finish ends the call of a queue, and judges its tag and the store. It returns
// the answer to send after a failure.
func (s *schedule) finish(q *queue, result callResult, err error) loadmsg.NotNow {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.judge(q, result, err)
	if !s.breaker.open {
		clear(s.refused)
	}
	s.running = slices.DeleteFunc(s.running, func(other *queue) bool { return other == q })
	q.lane.running--
	q.end(nil)
	q.serving = nil
	if len(q.waiting) > 0 {
		s.enqueue(q)
	} else {
		delete(s.queues, q.tag)
	}
	return why
}

// sweep removes the jobs that have waited for a probe, and returns those that
// this loader still holds.
func (s *schedule) sweep() (removed []job) {
	now := time.Now()
	for _, q := range s.queues {
		q.waiting = slices.DeleteFunc(q.waiting, func(j job) bool {
			old := now.Sub(j.added) >= probePause
			if old {
				s.waiting--
			}
			if old && j.claim() {
				removed = append(removed, j)
			}
			return old
		})
		if len(q.waiting) == 0 && q.place.Queued() {
			if q.lane == &s.known && len(s.refused) < maxSlow {
				s.refused[q.tag] = true
			}
			q.lane.Remove(&q.place)
			delete(s.queues, q.tag)
		}
	}
	return removed
}

// refuses reports whether the breaker is open, and why.
func (s *schedule) refuses() (why string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.reason, s.breaker.open
}

// outage returns the state of the store.
func (s *schedule) outage() Outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.outage
}

// needsProbe reports whether the loader is idle and it is unknown if the store
// works, and whether only a write can show it.
func (s *schedule) needsProbe() (needed, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := !s.closed && s.waiting == 0 && len(s.running) == 0
	return idle && s.breaker.needsProbe(), s.breaker.called
}

// recordProbe records the result of a probe.
func (s *schedule) recordProbe(began time.Time, wrote, hung bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaker.recordProbe(began, wrote, hung, err)
}

// room returns the number of events to pull from the stream: a batch; or while
// the breaker is open, one at a time, until there are several to probe with.
// The row of a single event may fail alone.
func (s *schedule) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.breaker.open
	switch {
	case open && s.waiting < failuresOfOutage:
		return 1
	case !open && s.waiting <= enoughWaiting:
		return pullBatch
	}
	return 0
}

// isIdle reports whether no call is running or waiting, or the breaker is open.
func (s *schedule) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting == 0 && len(s.running) == 0 || s.breaker.open
}

// close hands back all waiting and later jobs, so that other loaders get them
// at once. Workers retry plain messages.
func (s *schedule) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, q := range s.queues {
		for _, j := range q.waiting {
			j.release()
		}
	}
}
