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
	segments *queueGroup // never joined if the role answers no segment requests
	workerID *workerID
}

func newQueueGroups(p *Process, id *workerID) *queueGroups {
	return &queueGroups{process: p, segments: newQueueGroup(p.cfg.Log.With(zap.String("group", "segment"))), workerID: id}
}

// segmentRequests opens members of the queue group of segment requests.
type segmentRequests struct{ process *Process }

func (s segmentRequests) open() (member, error) {
	p := s.process
	delay := newQueueDelay(p.timing.queued)
	return openEndpoint(p.cfg.Requests, p.service(ServiceName), "segment", p.cfg.Prefix.Segment(">"), delay, p.answers.Segments(&delay.late))
}

// Start joins the queue group of segment requests, if the role answers them, and
// returns when the server has confirmed that. The process joins the other group once it holds a worker
// ID.
func (g *queueGroups) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.process.timing.start)
	defer cancel()
	g.workerID.start()
	g.segments.start()
	if g.process.cfg.Role.AnswersSegments() {
		g.segments.answerWith(segmentRequests{g.process})
	}
	if err := g.segments.awaitEntered(ctx); err != nil {
		return errors.Join(err, g.Stop())
	}
	return nil
}

// Stop leaves the queue groups and answers delivered requests. It waits for
// parked requests, so the loader and the supply must still be running.
func (g *queueGroups) Stop() error {
	var leaving sync.WaitGroup
	leaving.Go(g.segments.close)
	leaving.Go(g.workerID.group.close)
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
	g.segments.standBy(standsBy)
	g.workerID.group.standBy(standsBy)
}

// ready returns why no segment requests reach the process, or no snowflake
// requests if it answers only these.
func (g *queueGroups) ready() error {
	if !g.process.cfg.Role.AnswersSegments() {
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

// overload adds up the overloads of both groups.
func (g *queueGroups) overload() OverloadStats {
	a, b := g.segments.overload(), g.workerID.group.overload()
	return OverloadStats{Now: a.Now || b.Now, Times: a.Times + b.Times}
}

func (g *queueGroups) collect(to metric.Sink) {
	to.Counter(overloadsTotal, g.overload().Times)
	g.workerID.collect(to)
}
