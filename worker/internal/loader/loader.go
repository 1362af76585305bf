package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// DefaultTimeout is the usual Config.Timeout.
const DefaultTimeout = 3 * time.Second

// MaxStepLimit bounds the steps of events and Config.MaxStep, so that sums of steps
// cannot overflow.
const MaxStepLimit = 1 << 40

// drainTime bounds the time that a stopping loader serves waiting events.
const drainTime = 3 * time.Second

// lookAgain is the pause before checking a busy schedule again.
const lookAgain = 20 * time.Millisecond

// Config configures a loader. All fields must be set.
type Config struct {
	Store     store.Reserver
	StoreName string // for the log

	Control      *nats.Conn // for load events and grants
	JS           jetstream.JetStream
	Prefix       messages.Prefix
	Instance     string // names the process
	Installation string
	Replicas     int // if the load stream is missing; 1 to 5

	// Reservations is the number of slots for concurrent store calls, at least
	// 2.
	Reservations int

	MaxStep int64 // IDs reserved per event, at most
	// Bounds a call, whose outcome is unknown afterwards.
	Timeout time.Duration

	// Ask asks all other processes what they know of the register, see
	// [store.Reserver]. Until then the loader takes no load events, so that other
	// loaders get them.
	Ask func(context.Context) error

	Foreign *loadmsg.Foreign
	Log     *zap.Logger
}

// Loader reserves segments for load events, and sends the grants.
type Loader struct {
	cfg        Config
	lookup     *lookup
	grants     grantPublisher
	schedule   *schedule
	serving    *goroutines.Group // one per call
	consuming  atomic.Bool
	stream     *goroutines.Group // consumes the stream
	background *goroutines.Group
	counts     callCounts
	latency    metric.Histogram // of the store

	endings  *endings
	failures *failures

	taking   sync.Mutex
	takes    bool // the store has asked others
	standsBy bool
	plain    *nats.Subscription // nil unless takes and not standsBy
}

// grantPublisher publishes grants.
type grantPublisher interface {
	Publish(subject string, data []byte) error
}

// New returns a loader that is not started.
func New(cfg Config) *Loader {
	return newLoader(cfg, storedTemplates{cfg.JS, cfg.Prefix}, cfg.Control)
}

func newLoader(cfg Config, templates templateSource, grants grantPublisher) *Loader {
	serving := goroutines.New()
	return &Loader{
		cfg:        cfg,
		lookup:     newLookup(cfg.Store, templates),
		grants:     grants,
		schedule:   newSchedule(cfg, serving.Context()),
		serving:    serving,
		stream:     goroutines.New(),
		background: goroutines.New(),
		counts:     callCounts{"ok": {}, "no_tag": {}, "exhausted": {}, "failed": {}, "no_new_tag": {}, "strict": {}},
		endings:    newEndings(cfg.Log),
		failures:   newFailures(cfg.Log),
	}
}

// Start starts receiving load events until Stop, once the store has asked others.
// It does not wait for that, nor for a server.
func (l *Loader) Start(context.Context) error {
	l.run()
	l.stream.Start(func(ctx context.Context) {
		select {
		case <-l.cfg.Store.Asked():
			l.update(func() { l.takes = true })
			l.consume(ctx)
		case <-ctx.Done():
		}
	})
	return nil
}

// run starts the goroutines that serve load events from any source.
func (l *Loader) run() {
	l.background.Start(func(ctx context.Context) { l.cfg.Store.Run(ctx, l.cfg.Ask) })
	l.background.Start(l.probe)
	l.background.Start(func(ctx context.Context) {
		for {
			select {
			case <-l.schedule.alarm.C:
				l.dispatch()
			case <-ctx.Done():
				return
			}
		}
	})
}

// probe calls the store while no worker needs a segment, so that an outage shows
// before a load fails, and its end before the next load. A regression is
// reported elsewhere.
func (l *Loader) probe(ctx context.Context) {
	for ctx.Err() == nil {
		pause.For(ctx, probePause)
		needed, write := l.schedule.needsProbe()
		if !needed {
			continue
		}
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
		err := l.cfg.Store.Probe(bounded, write)
		hung := bounded.Err() != nil
		cancel()
		if ctx.Err() == nil && !errors.Is(err, store.ErrRegressed) {
			l.schedule.recordProbe(began, write, hung, err)
		}
	}
}

// update changes what decides whether plain load events are taken, and subscribes
// to them or unsubscribes.
func (l *Loader) update(change func()) {
	l.taking.Lock()
	defer l.taking.Unlock()
	change()
	switch wants := l.takes && !l.standsBy; {
	case wants && l.plain == nil:
		subject, err := loadmsg.ReserveSubject(l.cfg.Prefix), error(nil)
		if l.plain, err = l.cfg.Control.QueueSubscribe(subject, l.cfg.Prefix.QueueGroup(), l.receive); err != nil {
			l.cfg.Log.Error("cannot subscribe to load events", zap.String("subject", subject), zap.Error(err))
		}
	case !wants && l.plain != nil:
		_ = l.plain.Unsubscribe() // fails only with the connection
		l.plain = nil
	}
}

// StandBy leaves plain load events to another installation, or takes them
// again. It must be called between Start and Stop. Delivered events are lost,
// and requested again.
//
// The load stream is still consumed: it may hold events of the other
// installation. If they stayed there, the stream would refuse the next events,
// and the worker could mistake that for the answer of its own stream.
func (l *Loader) StandBy(standBy bool) { l.update(func() { l.standsBy = standBy }) }

// Stop serves waiting events for 3 s at most, unless the store fails, and hands
// the rest back. When it returns, no store call is running.
func (l *Loader) Stop() error {
	l.stream.Stop() // also what takes load events later
	l.update(func() { l.takes = false })
	for began := time.Now(); !l.schedule.isIdle() && time.Since(began) < drainTime; {
		time.Sleep(lookAgain)
	}
	l.schedule.close()
	l.serving.Stop()
	l.background.Stop()
	return nil
}

// Ready returns why the loader does not receive all load events, or nil.
func (l *Loader) Ready() error {
	if !l.hasAsked() {
		return errors.New("asking other processes what they know of the register")
	}
	if !l.consuming.Load() {
		return errors.New("not consuming load events: JetStream unavailable")
	}
	return nil
}

// hasAsked reports whether the store has asked others, so that it grants unless it
// has stopped.
func (l *Loader) hasAsked() bool {
	select {
	case <-l.cfg.Store.Asked():
		return true
	default:
		return false
	}
}

// Load takes a load event of the process itself. It returns false if the store
// fails, or has not asked others yet; another loader's store may grant.
func (l *Loader) Load(event loadmsg.Event) bool {
	if _, refuses := l.schedule.refuses(); refuses || !l.hasAsked() {
		return false
	}
	l.submit(event, hold{until: time.Now().Add(eventAge)})
	return true
}

// receive handles a load event from a plain message.
func (l *Loader) receive(msg *nats.Msg) {
	if event, err := l.decode(msg.Data); err == nil {
		l.submit(event, hold{until: time.Now().Add(eventAge)})
	}
}

// decode reads a load event of this installation.
func (l *Loader) decode(data []byte) (loadmsg.Event, error) {
	event, err := loadmsg.DecodeEvent(data, MaxStepLimit)
	if err != nil {
		l.cfg.Log.Warn("load event ignored", zap.Error(err))
	} else if l.cfg.Foreign.Drop(loadmsg.EventMessage, event.Installation, event.Instance) {
		err = errors.New("of another installation")
	}
	return event, err
}

// submit adds a job for an event.
func (l *Loader) submit(event loadmsg.Event, h hold) {
	l.schedule.add(job{event: event, hold: h, added: time.Now()})
	l.dispatch()
}

// callResult classifies the result of a store call.
type callResult struct {
	err     error  // in the error's chain
	name    string // in the metrics
	proof   proof
	refusal messages.Code // to the worker; 0: not now
}

// proof is the evidence that a call gives about the store.
type proof int

const (
	none  proof = iota // the store was not called
	read               // the store answered a read
	wrote              // the store answered a write
	failed
)

// results lists errors; the first match counts.
var results = []callResult{
	{errTooManyMisses, "no_new_tag", none, messages.CodeBusy},
	{errNoNewTag, "no_new_tag", read, messages.CodeBusy},
	{errNotRead, "failed", read, 0},
	{store.ErrNoTag, "no_tag", read, messages.CodeNoTag},
	{store.ErrStrict, "strict", read, messages.CodeStrict},
	{store.ErrExhausted, "exhausted", wrote, messages.CodeExhausted},
	{store.ErrCorrupt, "failed", wrote, messages.CodeUnavailable},
}

func resultOf(err error) callResult {
	if err == nil {
		return callResult{nil, "ok", wrote, 0}
	}
	for _, r := range results {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return callResult{err, "failed", failed, 0}
}

// dispatch begins all calls that may begin now.
func (l *Loader) dispatch() {
	for {
		q, unserved := l.schedule.next()
		if len(unserved) > 0 {
			why, _ := l.schedule.refuses()
			l.sendNotNow(unserved, loadmsg.NotNowStore, errors.New(why))
		}
		if q == nil || !l.serving.Start(func(context.Context) { l.serve(q) }) {
			return
		}
	}
}

// serve calls the store for the jobs of a queue, and answers them.
func (l *Loader) serve(q *queue) {
	ctx, cancel := context.WithTimeout(q.ctx, l.cfg.Timeout)
	defer cancel()
	jobs := q.serving
	left, err := l.load(ctx, q.tag, jobs)
	if ended := context.Cause(ctx); err != nil && ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	result := resultOf(err)
	why := l.schedule.finish(q, result, err)
	if result.proof == failed && l.serving.Context().Err() == nil && !l.schedule.outage().Now && !errors.Is(err, store.ErrRegressed) {
		l.failures.failed(q.tag, false, err)
	}
	if len(left) > 0 {
		l.sendNotNow(left, why, err)
	}
	l.dispatch()
}

// load reserves once for all jobs, and answers each with its part. If the store
// fails, it returns the unanswered jobs and the error. Otherwise the error is
// the latest refusal.
func (l *Loader) load(ctx context.Context, name string, jobs []job) (left []job, err error) {
	wants := make([]store.Want, len(jobs))
	for i, j := range jobs {
		wants[i] = store.Want{Step: j.event.Step, Waiting: j.event.Want, Most: l.cfg.MaxStep, TrendOnly: j.event.TrendOnly, Claim: j.event.Claim()}
	}
	began := time.Now()
	var granted store.Reservation
	if l.cfg.Store.Known(name) || isKnown(jobs) {
		granted, err = l.cfg.Store.Reserve(ctx, name, wants)
		if errors.Is(err, store.ErrNoTag) {
			granted, err = l.lookup.create(ctx, name, wants)
		}
	} else {
		granted, err = l.lookup.reserve(ctx, name, wants)
	}
	result := resultOf(err)
	l.counts[result.name].Add(1)
	if result.proof != none {
		l.latency.Observe(time.Since(began))
	}
	switch {
	case err == nil:
	case result.refusal == 0:
		return jobs, err
	case (result.refusal == messages.CodeExhausted || result.refusal == messages.CodeStrict) && len(jobs) > 1:
		// Strict jobs together want more than is left, or some of them are for trend
		// tags only; a single one may fit.
		for i := range jobs {
			if left, err = l.load(ctx, name, jobs[i:i+1]); len(left) > 0 {
				return jobs[i:], err
			}
		}
		return nil, err
	default:
		l.refuse(name, jobs, granted.Order, result, err)
		return nil, err
	}
	l.failures.granted(name)
	l.endings.granted(name, granted.End(), l.cfg.Store.Limited())
	served, rest := jobs[:len(granted.Parts)], jobs[len(granted.Parts):]
	for i, j := range served {
		part := granted.Parts[i]
		l.send(j.event, loadmsg.Grant{
			First: part.First, End: part.End, Step: granted.Step, Order: granted.Order,
			Floor: granted.Line.Floor, Sequence: granted.Line.Sequence,
		})
	}
	if len(rest) > 0 { // near the end of a trend tag's numbers
		return l.load(ctx, name, rest)
	}
	return nil, nil
}

// refuse answers jobs with a refusal of the store.
func (l *Loader) refuse(name string, jobs []job, order store.Order, result callResult, err error) {
	switch {
	case result.refusal == messages.CodeExhausted && order == store.Strict && jobs[0].event.Want > 1:
		// Fewer may be left.
	case result.refusal == messages.CodeExhausted:
		l.endings.refused(name, l.cfg.Store.Limited(), err)
	case result.refusal == messages.CodeUnavailable:
		l.failures.failed(name, true, err)
	case result.refusal == messages.CodeNoTag:
		l.failures.unknown(name)
	}
	answer := loadmsg.Grant{Refused: result.refusal}
	if answer.Refused == messages.CodeBusy || answer.Refused == messages.CodeUnavailable {
		answer.Reason = loadmsg.Reason(err)
	}
	if full, ok := errors.AsType[*fullError](err); ok {
		answer.FullTemplate = full.pattern
	}
	if errors.Is(result.err, errTooManyMisses) {
		answer.Pause = missPause.Milliseconds()
	}
	for _, j := range jobs {
		l.send(j.event, answer)
	}
}

// send answers an event. If the answer is lost, the range is burnt, and the
// worker retries.
func (l *Loader) send(event loadmsg.Event, grant loadmsg.Grant) {
	grant.Instance, grant.Tag, grant.Seq = event.Instance, event.Tag, event.Seq
	grant.Installation, grant.Loader = l.cfg.Installation, l.cfg.Instance
	if grant.First == 0 {
		grant.Floor = l.cfg.Store.Lowest()
	}
	_ = l.grants.Publish(loadmsg.GrantSubject(l.cfg.Prefix, event.Instance), grant.Encode())
}

func (l *Loader) sendNotNow(jobs []job, why loadmsg.NotNow, reason error) {
	for _, j := range jobs {
		l.send(j.event, loadmsg.Grant{NotNow: why, Reason: loadmsg.Reason(reason)})
	}
}
