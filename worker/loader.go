package worker

import (
	"context"
	"errors"
	"math"
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

// loader reserves segments for load events and sends the grants. Events for one tag that
// wait together are served by one call of the store. Which tag is next, and how many are served
// at a time, [turns] says. The time that a call may take begins with its turn.
type loader struct {
	lookups *lookups
	publish func(subject string, data []byte) error
	prefix  messages.Prefix
	maxStep int64
	timeout time.Duration // of a call of the store
	log     *zap.Logger

	installation string
	foreign      *foreignMessages

	health  *health
	turns   *turns
	serving *goroutines // one for each turn under way
	alarm   alarm       // for when a turn may begin that is not due yet

	mu      sync.Mutex
	corrupt map[string]bool // tags that were reported

	outcomes [len(loadOutcomes)]atomic.Int64
	latency  histogram // of the store
}

// loadOutcomes are how a call of the store can end.
var loadOutcomes = [...]string{"ok", "no_tag", "exhausted", "failed", "no_new_tag"}

// The indices of the outcomes.
const (
	loadOK = iota
	loadNoTag
	loadExhausted
	loadFailed
	loadNoNewTag // not looked up, or not created
)

func newLoader(cfg Config, from *lookups) *loader {
	h := newHealth(cfg.Log, cfg.StoreName)
	l := &loader{
		lookups: from,
		publish: cfg.Control.Publish,
		prefix:  cfg.Prefix,
		maxStep: cfg.MaxStep,
		timeout: cfg.storeTimeout,
		health:  h,
		turns:   newTurns(cfg.Reservations, h),
		log:     cfg.Log,
		serving: newGoroutines(),
		corrupt: make(map[string]bool),
	}
	l.turns.known = from.store.Known
	l.alarm.timer = time.AfterFunc(math.MaxInt64, l.dispatch)
	return l
}

// submit adds a job.
func (l *loader) submit(j job) {
	l.turns.add(j)
	l.dispatch()
}

// dispatch begins the turns that may begin now.
func (l *loader) dispatch() {
	for {
		q, again := l.turns.next()
		if q == nil {
			if !again.IsZero() {
				l.alarm.set(again)
			}
			return
		}
		if !l.serving.start(func(context.Context) { l.serve(q) }) {
			l.turns.end(q, nil)
			return
		}
	}
}

// serve is the turn of a tag.
func (l *loader) serve(q *queue) {
	left := l.load(q, q.serving)
	l.turns.end(q, left)
	l.dispatch()
}

// load reserves one segment for all jobs and splits it. It returns the jobs that have to be
// tried again.
func (l *loader) load(q *queue, jobs []job) (left []job) {
	tag, grant, err := l.reserve(q, jobs)
	if errors.Is(err, store.ErrExhausted) && len(jobs) > 1 {
		for i := range jobs { // together they want more than is left; one alone may fit
			left = append(left, l.load(q, jobs[i:i+1])...)
		}
		return left
	}
	if err != nil && refusalCode(err) == 0 {
		return jobs
	}
	if refusalCode(err) == messages.CodeUnavailable {
		l.reportCorrupt(q.tag, err)
	}
	for _, j := range jobs {
		if err == nil {
			own, rest := grant.Cut(l.allowedSize(j.event, tag))
			l.sendGrant(j.event, loads.Grant{First: own.First, End: own.End, Step: tag.Step, Order: tag.Order})
			grant.Segment = rest
		} else {
			l.sendGrant(j.event, refusal(err))
		}
	}
	return nil
}

// maxCorruptLogged bounds the memory of what was logged.
const maxCorruptLogged = 1000

// reportCorrupt logs a tag that cannot be granted until somebody mends it, once.
func (l *loader) reportCorrupt(tag string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.corrupt[tag] && len(l.corrupt) < maxCorruptLogged {
		l.corrupt[tag] = true
		l.log.Error("tag cannot be granted", zap.String("tag", tag), zap.Error(err))
	}
}

// allowedSize is how many IDs an event gets: never more than this loader may reserve,
// whatever the worker's largest step is. A worker that wants more asks again.
func (l *loader) allowedSize(event loads.Event, tag store.Tag) int64 {
	return min(event.Size(tag), l.maxStep)
}

// reserve calls the store, counts the call and records whether the store works. The jobs
// have arrived before, which the order of strict tags relies on.
func (l *loader) reserve(q *queue, jobs []job) (store.Tag, store.Grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	began := time.Now()
	tag, grant, err := l.lookups.reserve(ctx, q.tag, isKnown(jobs), func(tag store.Tag) (total int64) {
		for _, j := range jobs {
			total += l.allowedSize(j.event, tag)
		}
		return total
	})
	outcome := loadOutcome(err)
	l.outcomes[outcome].Add(1)
	if errors.Is(err, errTooManyMisses) {
		return tag, grant, err // without a call
	}
	l.latency.observe(time.Since(began))
	switch {
	case isLookup(err) && l.turns.anyFailed(): // those find out whether it takes writes
	case outcome != loadFailed, errors.Is(err, store.ErrCorrupt), isLookup(err): // the store has answered
		if l.health.recordSuccess() {
			l.turns.recover()
		}
	case !q.isSuspect():
		l.health.recordFailure(q.tag, began, err)
	}
	return tag, grant, err
}

// isLookup reports whether the store was only read: there is no such tag, or none that may be
// created.
func isLookup(err error) bool {
	return errors.Is(err, store.ErrNoTag) || errors.Is(err, errNoNewTag) || errors.Is(err, errNotRead)
}

func loadOutcome(err error) int {
	switch {
	case err == nil:
		return loadOK
	case errors.Is(err, store.ErrNoTag):
		return loadNoTag
	case errors.Is(err, store.ErrExhausted):
		return loadExhausted
	case errors.Is(err, errNoNewTag):
		return loadNoNewTag
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

// sendGrant sends the grant for one event. A grant that cannot be sent is lost: the range
// is burnt, and the worker asks again.
func (l *loader) sendGrant(event loads.Event, grant loads.Grant) {
	grant.Instance, grant.Tag, grant.Seq, grant.Installation = event.Instance, event.Tag, event.Seq, l.installation
	_ = l.publish(loads.GrantSubject(l.prefix, event.Instance), grant.Encode())
}

// refusal is the grant that brings the store's refusal.
func refusal(err error) loads.Grant {
	grant := loads.Grant{Refused: refusalCode(err)}
	if grant.Refused == messages.CodeBusy || grant.Refused == messages.CodeUnavailable {
		grant.Reason = loads.Reason(err)
	}
	if errors.Is(err, errTooManyMisses) {
		grant.Pause = missPause.Milliseconds()
	}
	return grant
}

// refusalCode is the code of an error that will not go away by trying again, else 0.
func refusalCode(err error) messages.Code {
	switch {
	case errors.Is(err, store.ErrNoTag):
		return messages.CodeNoTag
	case errors.Is(err, store.ErrExhausted):
		return messages.CodeExhausted
	case errors.Is(err, errNoNewTag):
		return messages.CodeBusy
	case errors.Is(err, store.ErrCorrupt):
		return messages.CodeUnavailable
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
	if !l.foreign.drop(foreignEvent, event.Installation, event.Instance) {
		l.loadDirectly(event)
	}
}

// loadDirectly loads for an event that did not come through the stream. If that fails, the
// worker asks again.
func (l *loader) loadDirectly(event loads.Event) {
	l.submit(job{event: event, until: time.Now().Add(loadEventAge)})
}

// loadIfUp loads for an event of the process itself, unless the store fails, when another
// loader's may be up.
func (l *loader) loadIfUp(event loads.Event) bool {
	up := l.health.isUp()
	if up {
		l.loadDirectly(event)
	}
	return up
}

// drainTime is how long a loader that stops goes on with what waits.
const drainTime = 3 * time.Second

// stop serves what waits, unless the store fails or that takes too long, and hands the rest
// back. It returns when all turns have ended.
func (l *loader) stop() {
	for deadline := time.Now().Add(drainTime); !l.turns.idle() && time.Now().Before(deadline); {
		time.Sleep(drainTime / 300)
	}
	l.turns.close()
	l.alarm.timer.Stop()
	l.serving.stop()
}
