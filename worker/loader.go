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

// storeTimeout bounds one call of the store. One that takes longer counts as
// failed, and its outcome as unknown.
const storeTimeout = 3 * time.Second

// reserver is the part of a store that the loader uses.
type reserver interface {
	Reserve(ctx context.Context, tag string, step int64) (store.Segment, error)
}

// loader reserves segments for load events. Events for one tag that wait together
// are served by one call of the store; different tags do not wait for each other.
type loader struct {
	store   reserver
	conn    *nats.Conn
	prefix  messages.Prefix
	maxStep int64
	outage  *outage
	log     *zap.Logger

	mu     sync.Mutex
	queues map[string]*queue // tags with a goroutine that serves them
	wg     sync.WaitGroup

	consuming atomic.Bool // load events, from the stream
	outcomes  [len(loadOutcomes)]atomic.Int64
	latency   histogram // of the store
}

// loadOutcomes are how a call of the store can end.
var loadOutcomes = [...]string{"ok", "no_tag", "exhausted", "failed"}

// The places of the outcomes.
const (
	loadOK = iota
	loadNoTag
	loadExhausted
	loadFailed
)

// queue is the jobs of one tag.
type queue struct {
	waiting []job
	serving []job
}

// job is one load event, and who is to be told how it went: nil means that a grant
// was sent, or that there is nothing more to do.
type job struct {
	event loads.Event
	done  func(err error)
}

func newLoader(cfg Config) *loader {
	return &loader{
		store:   cfg.Store,
		conn:    cfg.Control,
		prefix:  cfg.Prefix,
		maxStep: cfg.MaxStep,
		outage:  newOutage(cfg.Log, cfg.StoreName),
		log:     cfg.Log,
		queues:  make(map[string]*queue),
	}
}

// submit adds a job. One that comes again while it is being served, asked for twice
// or redelivered, is done with at once.
func (l *loader) submit(j job) {
	if !l.enqueue(j) {
		j.done(nil)
	}
}

// enqueue reports whether the job is new.
func (l *loader) enqueue(j job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	tag := j.event.Tag
	q := l.queues[tag]
	switch {
	case q == nil:
		q = &queue{waiting: []job{j}}
		l.queues[tag] = q
		l.wg.Go(func() { l.serve(tag, q) })
	case q.has(j.event):
		return false
	default:
		q.waiting = append(q.waiting, j)
	}
	return true
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

// serve works off the queue of a tag and ends when it is empty.
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
		total += l.size(j.event)
	}
	segment, err := l.reserve(tag, total)
	if errors.Is(err, store.ErrExhausted) && len(jobs) > 1 {
		for _, j := range jobs { // together they want more than is left; one alone may not
			l.load(tag, []job{j})
		}
		return
	}
	for _, j := range jobs {
		var own store.Segment
		if err == nil {
			own, segment = segment.Cut(l.size(j.event))
		}
		j.done(l.answer(j.event, own, err))
	}
}

// size is how many IDs an event gets: never more than this loader may reserve, whatever
// the worker's largest step is. If it wants more, it asks again.
func (l *loader) size(event loads.Event) int64 { return min(event.Size(), l.maxStep) }

// reserve calls the store and keeps the books of its health.
func (l *loader) reserve(tag string, n int64) (store.Segment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	began := time.Now()
	segment, err := l.store.Reserve(ctx, tag, n)
	l.latency.observe(time.Since(began))
	outcome := loadOutcome(err)
	l.outcomes[outcome].Add(1)
	if outcome == loadFailed {
		l.outage.failed(tag, began, err)
	} else {
		l.outage.worked(tag)
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

// answer sends the grant for one event, or the store's refusal. Other errors are
// returned: the event has to be tried again.
func (l *loader) answer(event loads.Event, s store.Segment, err error) error {
	grant := loads.Grant{Instance: event.Instance, Tag: event.Tag, Seq: event.Seq, First: s.First, End: s.End}
	if err != nil {
		if grant.Refused = refusal(err); grant.Refused == 0 {
			return err
		}
	}
	// A grant that cannot be sent is lost: the range is burnt, and the worker
	// asks again.
	_ = l.conn.Publish(loads.GrantSubject(l.prefix, event.Instance), grant.Encode())
	return nil
}

// refusal is the code of an error that trying again does not mend, else 0.
func refusal(err error) messages.Code {
	switch {
	case errors.Is(err, store.ErrNoTag):
		return messages.CodeNoTag
	case errors.Is(err, store.ErrExhausted):
		return messages.CodeExhausted
	}
	return 0
}

// plain handles a load event that came by plain message. If it fails, the worker
// asks again.
func (l *loader) plain(msg *nats.Msg) {
	event, err := loads.DecodeEvent(msg.Data, maxStepLimit)
	if err != nil {
		l.log.Warn("load event ignored", zap.Error(err))
		return
	}
	l.direct(event)
}

// direct loads for an event that did not come through the stream.
func (l *loader) direct(event loads.Event) {
	l.submit(job{event, func(error) {}})
}

// wait returns when all jobs are done.
func (l *loader) wait() { l.wg.Wait() }
