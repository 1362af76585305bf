package worker

import (
	"context"
	"errors"
	"math"
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

// reserver is the part of a store that reserves for tags that exist.
type reserver interface {
	Reserve(ctx context.Context, tag string, n int64) (store.Segment, error)
}

// loader reserves segments for load events and sends the grants. Events for one tag that
// wait together are served by one call of the store. Which tag is next, and how many are served
// at a time, [turns] says. The time that a call may take begins with its turn.
type loader struct {
	store   reserver
	firsts  *firstUses
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
	loadNoNewTag // without a call
)

func newLoader(cfg Config, rules knownRules, from firstReserver) *loader {
	h := newHealth(cfg.Log, cfg.StoreName)
	l := &loader{
		store:   from,
		firsts:  newFirstUses(rules, from),
		publish: cfg.Control.Publish,
		prefix:  cfg.Prefix,
		maxStep: cfg.MaxStep,
		timeout: cfg.storeTimeout,
		health:  h,
		turns:   newTurns(cfg.Reservations, h),
		log:     cfg.Log,
		serving: newGoroutines(),
	}
	l.turns.first = l.firsts.templateOf
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
	var total int64
	for _, j := range jobs {
		total += l.allowedSize(j.event)
	}
	segment, err := l.reserve(q, total)
	if errors.Is(err, store.ErrExhausted) && len(jobs) > 1 {
		for i := range jobs { // together they want more than is left; one alone may fit
			left = append(left, l.load(q, jobs[i:i+1])...)
		}
		return left
	}
	if err != nil && refusalCode(err) == 0 {
		return jobs
	}
	for _, j := range jobs {
		var own store.Segment
		if err == nil {
			own, segment = segment.Cut(l.allowedSize(j.event))
		}
		l.sendGrant(j.event, own, err)
	}
	return nil
}

// allowedSize is how many IDs an event gets: never more than this loader may reserve,
// whatever the worker's largest step is. A worker that wants more asks again.
func (l *loader) allowedSize(event loads.Event) int64 { return min(event.Size(), l.maxStep) }

// reserve calls the store, counts the call and records whether the store works.
func (l *loader) reserve(q *queue, n int64) (store.Segment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	began := time.Now()
	segment, err := l.callStore(ctx, q, n)
	outcome := loadOutcome(err)
	l.outcomes[outcome].Add(1)
	if outcome == loadNoNewTag || errors.Is(err, errUncounted) || errors.Is(err, errOldRules) {
		return segment, err // which says nothing of the store
	}
	l.latency.observe(time.Since(began))
	switch {
	case outcome != loadFailed || errors.Is(err, store.ErrCorrupt): // which the store has found out
		if l.health.recordSuccess() {
			l.turns.recover()
		}
	case !q.isSuspect():
		l.health.recordFailure(q.tag, began, err)
	}
	return segment, err
}

// callStore reserves for a tag, which a template may have come into being. A worker that knows of a template
// of which this loader has not read is not told that there is no such tag.
func (l *loader) callStore(ctx context.Context, q *queue, n int64) (store.Segment, error) {
	if template := l.firsts.rules.Lookup(q.tag).Template; template != nil {
		return l.firsts.reserve(ctx, q.tag, template, n)
	}
	segment, err := l.store.Reserve(ctx, q.tag, n)
	if errors.Is(err, store.ErrNoTag) && l.firsts.rules.Revision() < q.rules() {
		err = errOldRules
	}
	return segment, err
}

// listed is called when the store could be listed. That is evidence only while there is no load:
// a database that may not be written to can still be listed.
func (l *loader) listed() {
	if l.turns.empty() && l.health.recordSuccess() {
		l.turns.signal()
	}
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

// sendGrant sends the grant for one event: the segment, or the store's refusal. A grant that
// cannot be sent is lost: the range is burnt, and the worker asks again.
func (l *loader) sendGrant(event loads.Event, s store.Segment, refused error) {
	grant := loads.Grant{
		Instance: event.Instance, Tag: event.Tag, Seq: event.Seq, First: s.First, End: s.End, Refused: refusalCode(refused), Installation: l.installation,
	}
	if grant.Refused == messages.CodeBusy {
		grant.Reason = refused.Error()
	}
	_ = l.publish(loads.GrantSubject(l.prefix, event.Instance), grant.Encode())
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
