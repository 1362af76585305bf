package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/worker/internal/answer"
	"github.com/idworker/idworker/worker/internal/decision"
)

// queueGroups is the part of a process that answers requests. It is in the
// queue group of segment requests, if the role answers them, and in that of
// snowflake requests while the process holds a worker ID.
type queueGroups struct {
	entrance *entrance
	timeout  time.Duration // bounds a start
	workerID *workerID
	// The next two are nil if the role does not answer segment requests.
	segments *queueGroup
	alloc    *allocator.Allocator
}

// entrance opens the process's members of the queue groups.
type entrance struct {
	requests *nats.Conn
	prefix   messages.Prefix
	answers  *answer.Answerer
	watch    *decision.Watch // of segment requests; else nil
	queued   time.Duration   // bounds the time that requests may queue
	lost     time.Duration   // without a PONG or a message, the server is lost
	maxBatch int64
	// describes a micro service of the process
	service func(name string) micro.Config
}

// segmentRequests opens members of the queue group of segment requests.
type segmentRequests struct{ *entrance }

func (s segmentRequests) open() (member, error) {
	delay := &queueDelay{limit: s.queued, lost: s.lost, gate: s.watch.NewGate()}
	info := endpointInfo{
		"segment", s.prefix.Segment(">"),
		s.countText() + "; the subject ends in the tag", rangesText, protocolPage + "#request",
	}
	return openEndpoint(s.requests, s.service(ServiceName), info, delay, s.answers.Segments(&delay.late, delay.gate))
}

// snowflakeRequests opens members of the queue group of snowflake requests.
// Each worker ID gets its own member.
type snowflakeRequests struct {
	*entrance
	generator *snowflake.Generator
}

func (s snowflakeRequests) open() (member, error) {
	delay := &queueDelay{limit: s.queued, lost: s.lost}
	info := endpointInfo{"snowflake", s.prefix.Snowflake(), s.countText(), rangesText, protocolPage + "#snowflake-ids"}
	return openEndpoint(s.requests, s.service(snowflakeServiceName), info, delay, s.answers.Snowflakes(s.generator, &delay.late))
}

// The texts of INFO for requests and their replies.

func (e *entrance) countText() string {
	return fmt.Sprintf("empty for one ID, or a decimal count, 1 to %d", e.maxBatch)
}

const rangesText = "ranges of IDs in lines, such as 1001-1003 or 1005; or the header Nats-Service-Error-Code"

// all returns the queue groups of the role.
func (g *queueGroups) all() []*queueGroup {
	if g.segments == nil {
		return []*queueGroup{g.workerID.group}
	}
	return []*queueGroup{g.segments, g.workerID.group}
}

// refuses returns why the process also refuses direct requests, or nil.
func (g *queueGroups) refuses() error {
	if g.segments == nil {
		return g.workerID.group.refuses()
	}
	return g.segments.refuses()
}

// Start joins the queue group of segment requests, and returns when the server
// has confirmed that. The process joins the other group once it holds a worker
// ID. Start waits for that only if the role answers nothing else, and not if
// the first claim fails.
func (g *queueGroups) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	g.workerID.start()
	var err error
	if g.segments != nil {
		g.segments.start()
		g.segments.answerWith(segmentRequests{g.entrance})
		err = g.segments.awaitEntered(ctx)
	} else {
		select {
		case <-g.workerID.tried:
			err = g.workerID.group.awaitEntered(ctx)
		case <-ctx.Done():
			err = fmt.Errorf("worker ID: %w: %w", errNotClaimed, ctx.Err())
		}
	}
	if err != nil {
		return errors.Join(err, g.Stop())
	}
	return nil
}

// Stop leaves the queue groups and answers delivered requests. It waits for
// parked requests, so the loader and the supply must still be running.
func (g *queueGroups) Stop() error {
	var leaving sync.WaitGroup
	for _, group := range g.all() {
		leaving.Go(group.close)
	}
	leaving.Wait()
	g.workerID.stop()
	// Until their deadlines at most.
	for g.alloc != nil && g.alloc.Parked() > 0 {
		time.Sleep(parkedPoll)
	}
	return nil
}

// parkedPoll is the interval between checks for parked requests during a stop.
const parkedPoll = 10 * time.Millisecond

// standBy leaves the queue groups to another installation, or rejoins them.
func (g *queueGroups) standBy(standsBy bool) {
	for _, group := range g.all() {
		group.standBy(standsBy)
	}
}

// ready returns why no segment requests reach the process or, if the role does
// not answer them, why no snowflake requests do.
func (g *queueGroups) ready() error {
	if g.segments == nil {
		if _, err := g.workerID.generator(); err != nil {
			return err
		}
		return g.degraded()
	}
	if err := g.segments.missing(); err != nil {
		return fmt.Errorf("not in the segment queue group: %w", err)
	}
	return nil
}

// degraded returns why no snowflake requests reach the process although it
// holds a worker ID.
func (g *queueGroups) degraded() error {
	if err := g.workerID.group.missing(); err != nil {
		return fmt.Errorf("not in the snowflake queue group: %w", err)
	}
	return nil
}

// overload adds up the overloads of the groups.
func (g *queueGroups) overload() (sum OverloadStats) {
	for _, group := range g.all() {
		o := group.overload()
		sum.Now, sum.Times = sum.Now || o.Now, sum.Times+o.Times
	}
	return sum
}

var overloadsTotal = metric.Declare("overloads_total", "Times the worker left a queue group because requests queued too long.")

func (g *queueGroups) collect(to metric.Sink) {
	to.Counter(overloadsTotal, g.overload().Times)
	g.workerID.collect(to)
}

// queueGroup keeps the process in the queue group for one kind of request, or
// out of it. Its goroutine opens a member, waits until the process should leave
// or the member is lost, waits until the member has handled delivered requests,
// and starts over. So two members never answer side by side, and a tag's IDs
// stay in order. The server keeps no member that does not answer; see
// [endpointConn].
//
// While requests queue too long (see [queueDelay]), each gets 429 instead of
// IDs. The process leaves the group until the delivered requests are handled.
// Other workers then get new requests, or callers learn at once that there is
// no responder. Refusing alone is not enough: a refusal takes as long as an
// answer, so a worker that refuses everything never catches up.
type queueGroup struct {
	log        *zap.Logger
	background *goroutines.Group
	changed    chan struct{} // wakes the goroutine; capacity 1

	mu       sync.Mutex
	opener   opener // nil if there is nothing to answer with
	standsBy bool
	member   member // nil outside the group
	outside  error  // why there is no member
	// times the process left because requests queued too long
	overloads int64
}

// opener opens a member of a queue group. Equal openers open equal members.
type opener interface{ open() (member, error) }

// member is a member of a queue group: an [endpointConn].
type member interface {
	// begins to leave; delivered requests are still handled
	stop()
	left() <-chan struct{} // closed when no request is being handled
	// up: requests reach it; late: they queue too long
	state() (up, late bool)
}

// Reasons why a process is not in a queue group, in addition to errors of
// entering.
var (
	errLeftOverloaded = errors.New("overloaded")
	errNotEntered     = errors.New("not entered yet")
	errConnLost       = errors.New("connection lost")
	errStopping       = errors.New("stopping")
	errStandsBy       = errors.New("another installation answers on the same subjects")
)

const (
	// pause after a failed attempt to enter
	enterAgain     = 500 * time.Millisecond
	enteredPoll    = 10 * time.Millisecond
	overloadEvery  = 100 * time.Millisecond // between two checks
	overloadLogged = time.Minute            // between two log messages
)

func newQueueGroup(log *zap.Logger) *queueGroup {
	return &queueGroup{log: log, background: goroutines.New(), changed: make(chan struct{}, 1), outside: errNotEntered}
}

func (g *queueGroup) start() { g.background.Start(g.run) }

// close leaves the queue group for good, and returns when all delivered
// requests are handled.
func (g *queueGroup) close() { g.background.Stop() }

// answerWith makes the process join the queue group with the member that o
// opens, or leave it if o is nil. It does not wait for that. Failed attempts
// are retried.
func (g *queueGroup) answerWith(o opener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opener = o
	g.wake()
}

// standBy leaves the queue group to another installation, or rejoins it.
func (g *queueGroup) standBy(standsBy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.standsBy = standsBy
	g.wake()
}

func (g *queueGroup) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// wanted returns the opener that the process should answer with, or nil.
func (g *queueGroup) wanted() opener {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.standsBy || g.stopping() {
		return nil
	}
	return g.opener
}

func (g *queueGroup) stopping() bool { return g.background.Context().Err() != nil }

// set sets the member, or the reason why there is none.
func (g *queueGroup) set(m member, outside error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.member, g.outside = m, outside
	if errors.Is(outside, errLeftOverloaded) {
		g.overloads++
	}
}

// run keeps the process in the queue group, or out of it, until ctx ends.
func (g *queueGroup) run(ctx context.Context) {
	failing, logged := false, time.Time{}
	for ctx.Err() == nil {
		o := g.wanted()
		if o == nil {
			select {
			case <-g.changed:
			case <-ctx.Done():
			}
			continue
		}
		m, err := o.open()
		if err != nil {
			g.set(nil, err)
			if !failing {
				g.log.Error("cannot enter the queue group, retrying", zap.Error(err))
			}
			failing = true
			pause.For(ctx, enterAgain)
			continue
		}
		failing = false
		g.set(m, nil)
		why := g.awaitLeaving(ctx, o, m)
		g.set(nil, why)
		if errors.Is(why, errLeftOverloaded) && time.Since(logged) > overloadLogged {
			logged = time.Now()
			g.log.Warn("overloaded, leaving the queue group")
		}
		m.stop()
		<-m.left()
	}
}

// awaitLeaving returns when the process should leave the group, or the member
// is lost because its connection gave up. It returns the reason.
func (g *queueGroup) awaitLeaving(ctx context.Context, o opener, m member) error {
	ticker := time.NewTicker(overloadEvery)
	defer ticker.Stop()
	for g.wanted() == o {
		select {
		case <-g.changed:
		case <-ctx.Done():
		case <-m.left():
			return errNotEntered
		case <-ticker.C:
			if _, late := m.state(); late {
				return errLeftOverloaded
			}
		}
	}
	return errNotEntered
}

// awaitEntered returns when the process is in the group, a server has denied
// that, or ctx ends.
func (g *queueGroup) awaitEntered(ctx context.Context) error {
	for {
		err := g.missing()
		passing := errors.Is(err, errNotEntered) || errors.Is(err, errConnLost) || isAway(err)
		if !passing || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		pause.For(ctx, enteredPoll)
	}
}

// refuses returns why the process also refuses direct requests, or nil. A lost
// connection does not count: buffers work without it.
func (g *queueGroup) refuses() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := errors.Is(g.outside, errLeftOverloaded)
	if g.member != nil {
		_, late = g.member.state()
	}
	switch {
	case g.stopping():
		return errStopping
	case g.standsBy:
		return errStandsBy
	case late:
		return answer.ErrOverloaded
	}
	return nil
}

// missing returns why no requests reach the process although it has an opener
// and does not stand by, or nil.
func (g *queueGroup) missing() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.opener == nil || g.standsBy:
		return nil
	case g.member == nil:
		return g.outside
	}
	if up, _ := g.member.state(); !up {
		return errConnLost
	}
	return nil
}

// overload counts how many times the process left because of an overload, and
// reports whether it is out of the group now.
func (g *queueGroup) overload() OverloadStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return OverloadStats{Now: errors.Is(g.outside, errLeftOverloaded), Times: g.overloads}
}
