package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/metric"
)

// queueGroups is the part of a process that answers requests. It is in the
// queue group of segment requests, if the role answers them, and in that of
// snowflake requests while the process holds a worker ID.
type queueGroups struct {
	process  *Process
	segments *queueGroup // nil if the role does not answer segment requests
	workerID *workerID
}

func newQueueGroups(p *Process, id *workerID) *queueGroups {
	g := &queueGroups{process: p, workerID: id}
	if p.cfg.Role.AnswersSegments() {
		g.segments = newQueueGroup(p.cfg.Log.With(zap.String("group", "segment")))
	}
	return g
}

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

// segmentRequests opens members of the queue group of segment requests.
type segmentRequests struct{ process *Process }

func (s segmentRequests) open() (member, error) {
	p := s.process
	delay := newQueueDelay(p.timing.queued)
	return openEndpoint(p.cfg.Requests, p.service(ServiceName), "segment", p.cfg.Prefix.Segment(">"), delay, p.answers.Segments(&delay.late))
}

// Start joins the queue group of segment requests, and returns when the server
// has confirmed that. The process joins the other group once it holds a worker
// ID. Start waits for that only if the role answers nothing else, and not if
// the first claim fails.
func (g *queueGroups) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.process.timing.start)
	defer cancel()
	g.workerID.start()
	if err := g.enter(ctx); err != nil {
		return errors.Join(err, g.Stop())
	}
	return nil
}

func (g *queueGroups) enter(ctx context.Context) error {
	if g.segments != nil {
		g.segments.start()
		g.segments.answerWith(segmentRequests{g.process})
		return g.segments.awaitEntered(ctx)
	}
	select {
	case <-g.workerID.tried:
		return g.workerID.group.awaitEntered(ctx)
	case <-ctx.Done():
		return fmt.Errorf("worker ID: %w: %w", errNotClaimed, ctx.Err())
	}
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
	if g.process.supply == nil {
		return nil
	}
	// Until their deadlines at most.
	for g.process.supply.Allocator().Parked() > 0 {
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

func (g *queueGroups) collect(to metric.Sink) {
	to.Counter(overloadsTotal, g.overload().Times)
	g.workerID.collect(to)
}
