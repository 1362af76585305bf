package worker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/neighbours"
)

// answering is the half of a process that answers requests. Its parts:
//
//	supply      keeps the allocator supplied with segments
//	snowflakes  keeps a worker ID, and answers with it
//	line        knows whether requests wait for too long before their turn
//	shedder     leaves the queue groups while they do
type answering struct {
	processInfo
	supply     *supply
	snowflakes *snowflakes
	line       *waitingLine
	shedder    *shedder
	group      *membership // of requests for segments
	aside      membership  // where the process can still be asked how it is, while it gives way
	figures    requestFigures
	background *goroutines
}

// openAnswering makes an answering half, whose loads go through the load stream or to a target
// besides.
func openAnswering(ctx context.Context, p processInfo, target loadTarget) (*answering, error) {
	line := new(waitingLine)
	s, err := openSnowflakes(ctx, p, line)
	if err != nil {
		return nil, err
	}
	return newAnswering(p, newSupply(p, target), s), nil
}

func newAnswering(p processInfo, supply *supply, s *snowflakes) *answering {
	group := new(membership)
	return &answering{
		processInfo: p,
		supply:      supply,
		snowflakes:  s,
		line:        s.line,
		shedder:     newShedder(p.cfg, s.line, group, &s.group),
		group:       group,
		background:  newGoroutines(),
	}
}

// start joins the queue groups when requests can be answered: the queue groups come last.
func (a *answering) start(ctx context.Context) error {
	if err := a.supply.start(ctx); err != nil {
		a.aside.close()
		return err
	}
	if err := a.join(ctx); err != nil {
		return errors.Join(err, a.stop())
	}
	return nil
}

// join enters the queue groups, and returns when the server knows. The group of snowflake
// requests is entered as soon as there is a worker ID.
func (a *answering) join(ctx context.Context) error {
	a.background.start(func(ctx context.Context) { a.line.run(ctx, a.cfg.Requests) })
	a.snowflakes.start()
	err := a.group.join(func() (member, error) {
		return a.addService(ServiceName, "segment", a.cfg.Prefix.Segment(">"),
			newSegmentEndpoint(a.cfg, a.supply.alloc, a.line, &a.figures))
	})
	if err != nil {
		return err
	}
	a.shedder.start()
	return a.cfg.Requests.FlushWithContext(ctx)
}

// stop leaves the queue groups and answers what was delivered. Parked requests are waited
// for, so the loading half must still be at work.
func (a *answering) stop() error {
	err := a.leave()
	a.snowflakes.stop()
	a.awaitParked()
	a.background.stop()
	return errors.Join(err, a.supply.stop())
}

// leave takes the process out of the queue groups, and returns when all requests that were
// delivered have been handled.
func (a *answering) leave() error {
	a.snowflakes.group.close()
	a.group.close()
	a.aside.close()
	a.shedder.stop()
	// After the flush the server sends no more requests, and the barrier lies behind all
	// that it has sent. A server that is away sends no more either.
	flushErr := flush(a.cfg.Requests)
	handled := make(chan struct{})
	if err := a.cfg.Requests.Barrier(func() { close(handled) }); err != nil {
		return errors.Join(flushErr, err)
	}
	<-handled
	return flushErr
}

// awaitParked waits until no request is parked. At the latest that is when their deadlines
// have passed.
func (a *answering) awaitParked() {
	for a.supply.alloc.Parked() > 0 {
		time.Sleep(a.cfg.Wait / ticksPerWait)
	}
}

// giveWay leaves the queue groups to another installation, or comes back to them. Outside
// them the process keeps a service that gets no requests, so that whoever asks for STATS is
// told why.
func (a *answering) giveWay(ctx context.Context, away bool) (err error) {
	if away {
		err = a.aside.join(a.openAside)
	} else {
		a.aside.leave()
		a.shedder.awaitDelivered(ctx)
	}
	for _, group := range []*membership{a.group, &a.snowflakes.group} {
		err = errors.Join(err, group.stayAway(givingWay, away))
	}
	return err
}

// openAside registers a service on a subject of this process alone. Whatever comes there is
// not for the service.
func (a *answering) openAside() (member, error) {
	return a.addService(ServiceName, "aside", neighbours.AnswerSubject(a.cfg.Prefix, a.instance),
		micro.HandlerFunc(func(micro.Request) {}))
}

func (a *answering) ready() error {
	if a.group.missing() {
		return errors.New("not in the queue group: overloaded")
	}
	return nil
}

func (a *answering) fillStats(s *Stats) {
	a.supply.fillStats(s)
	a.snowflakes.fillStats(s)
}
