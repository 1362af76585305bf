package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// storeTimeout bounds one call of the store. A call that takes longer counts as failed, with
// an unknown outcome.
const storeTimeout = 3 * time.Second

// reserver is the part of a store with a memory that the loader uses.
type reserver interface {
	Reserve(ctx context.Context, tag string, step int64) (store.Segment, error)

	// Learn says that everything below end was given away.
	Learn(tag string, end int64)
}

// loader reserves segments for load events and sends the grants. Events for one tag that
// wait together are served by one call of the store. Tags do not wait for each other.
type loader struct {
	store   reserver
	conn    *nats.Conn
	prefix  messages.Prefix
	maxStep int64
	outage  *outage
	log     *zap.Logger

	mu      sync.Mutex
	queues  map[string]*queue // of the tags that are being served
	serving *goroutines       // one for each of these tags

	outcomes [len(loadOutcomes)]atomic.Int64
	latency  histogram // of the store
}

// loadOutcomes are how a call of the store can end.
var loadOutcomes = [...]string{"ok", "no_tag", "exhausted", "failed"}

// The indices of the outcomes.
const (
	loadOK = iota
	loadNoTag
	loadExhausted
	loadFailed
)

// queue holds the jobs of one tag.
type queue struct {
	waiting []job
	serving []job
}

// job is one load event. done is called with nil once a grant was sent or nothing is left to
// do, and with an error if the event has to be tried again.
type job struct {
	event loads.Event
	done  func(err error)
}

func newLoader(cfg Config, from reserver) *loader {
	return &loader{
		store:   from,
		conn:    cfg.Control,
		prefix:  cfg.Prefix,
		maxStep: cfg.MaxStep,
		outage:  newOutage(cfg.Log, cfg.StoreName),
		log:     cfg.Log,
		queues:  make(map[string]*queue),
		serving: newGoroutines(),
	}
}

// errLoaderStopped is the outcome of a job that was submitted too late.
var errLoaderStopped = errors.New("the loader has stopped")

// submit adds a job. If the same load is already queued or being served, because it was
// asked for twice or redelivered, the job is done at once.
func (l *loader) submit(j job) {
	if queued, err := l.enqueue(j); !queued {
		j.done(err)
	}
}

// enqueue adds a job, if it is new.
func (l *loader) enqueue(j job) (queued bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tag := j.event.Tag
	q := l.queues[tag]
	switch {
	case q == nil:
		q = &queue{waiting: []job{j}}
		if !l.serving.start(func(context.Context) { l.serve(tag, q) }) {
			return false, errLoaderStopped
		}
		l.queues[tag] = q
	case q.has(j.event):
		return false, nil
	default:
		q.waiting = append(q.waiting, j)
	}
	return true, nil
}

// has reports whether the queue holds the same load of the same worker.
func (q *queue) has(event loads.Event) bool {
	for _, jobs := range [][]job{q.serving, q.waiting} {
		for _, j := range jobs {
			if j.event.Instance == event.Instance && j.event.Seq == event.Seq {
				return true
			}
		}
	}
	return false
}

// serve serves the queue of a tag until it is empty.
func (l *loader) serve(tag string, q *queue) {
	for {
		l.mu.Lock()
		q.serving, q.waiting = q.waiting, nil
		if len(q.serving) == 0 {
			delete(l.queues, tag)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.load(tag, q.serving)
	}
}

// load reserves one segment for all jobs and splits it.
func (l *loader) load(tag string, jobs []job) {
	var total int64
	for _, j := range jobs {
		total += l.allowedSize(j.event)
		l.store.Learn(tag, j.event.Above)
	}
	segment, err := l.reserve(tag, total)
	if errors.Is(err, store.ErrExhausted) && len(jobs) > 1 {
		for _, j := range jobs { // together they want more than is left; one alone may fit
			l.load(tag, []job{j})
		}
		return
	}
	for _, j := range jobs {
		var own store.Segment
		if err == nil {
			own, segment = segment.Cut(l.allowedSize(j.event))
		}
		j.done(l.sendGrant(j.event, own, err))
	}
}

// allowedSize is how many IDs an event gets: never more than this loader may reserve,
// whatever the worker's largest step is. A worker that wants more asks again.
func (l *loader) allowedSize(event loads.Event) int64 { return min(event.Size(), l.maxStep) }

// reserve calls the store, counts the call and records whether the store works.
func (l *loader) reserve(tag string, n int64) (store.Segment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	began := time.Now()
	segment, err := l.store.Reserve(ctx, tag, n)
	l.latency.observe(time.Since(began))
	outcome := loadOutcome(err)
	l.outcomes[outcome].Add(1)
	if outcome == loadFailed {
		l.outage.recordFailure(tag, began, err)
	} else {
		l.outage.recordSuccess(tag)
	}
	return segment, err
}

func loadOutcome(err error) int {
	switch {
	case err == nil:
		return loadOK
	case errors.Is(err, store.ErrNoTag):
		return loadNoTag
	case errors.Is(err, store.ErrExhausted):
		return loadExhausted
	}
	return loadFailed
}

// calls is how often the store was called.
func (l *loader) calls() (n int64) {
	for i := range l.outcomes {
		n += l.outcomes[i].Load()
	}
	return n
}

// sendGrant sends the grant for one event: the segment, or the store's refusal. Other errors
// are returned, and the event has to be tried again.
func (l *loader) sendGrant(event loads.Event, s store.Segment, err error) error {
	grant := loads.Grant{Instance: event.Instance, Tag: event.Tag, Seq: event.Seq, First: s.First, End: s.End}
	if err != nil {
		if grant.Refused = refusalCode(err); grant.Refused == 0 {
			return err
		}
	}
	// A grant that cannot be sent is lost: the range is burnt, and the worker
	// asks again.
	_ = l.conn.Publish(loads.GrantSubject(l.prefix, event.Instance), grant.Encode())
	return nil
}

// refusalCode is the code of an error that will not go away by trying again, else 0.
func refusalCode(err error) messages.Code {
	switch {
	case errors.Is(err, store.ErrNoTag):
		return messages.CodeNoTag
	case errors.Is(err, store.ErrExhausted):
		return messages.CodeExhausted
	}
	return 0
}

// receivePlain handles a load event that came as a plain message.
func (l *loader) receivePlain(msg *nats.Msg) {
	event, err := loads.DecodeEvent(msg.Data, maxStepLimit)
	if err != nil {
		l.log.Warn("load event ignored", zap.Error(err))
		return
	}
	l.loadDirectly(event)
}

// loadDirectly loads for an event that did not come through the stream. If that fails, the
// worker asks again.
func (l *loader) loadDirectly(event loads.Event) {
	l.submit(job{event, func(error) {}})
}

// stop returns when all jobs are done. Those that are submitted later fail, and so are left
// to other loaders.
func (l *loader) stop() { l.serving.stop() }
