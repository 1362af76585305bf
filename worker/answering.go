package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/neighbours"
)

// answering is the half of a process that answers requests. Its parts:
//
//	supply      keeps the allocator supplied with segments
//	snowflakes  keeps a worker ID, and answers with it
//	shedder     leaves the queue groups while they do
type answering struct {
	processInfo
	supply     *supply
	snowflakes *snowflakes
	shedder    *shedder
	group      *membership // of requests for segments
	aside      *membership // where the process can still be asked how it is, while it gives way
	figures    requestFigures
}

// openAnswering makes an answering half. Own takes loads for the process's own loader, if it
// has one whose store is up.
func openAnswering(ctx context.Context, p processInfo, own func(loads.Event) bool) (*answering, error) {
	s, err := openSnowflakes(ctx, p)
	if err != nil {
		return nil, err
	}
	return newAnswering(p, newSupply(p, own), s), nil
}

func newAnswering(p processInfo, supply *supply, s *snowflakes) *answering {
	group := newMembership(p.cfg.Log.With(zap.String("group", "segment")))
	return &answering{
		processInfo: p,
		supply:      supply,
		snowflakes:  s,
		shedder:     newShedder(p.cfg.Log, group, s.group),
		group:       group,
		aside:       newMembership(p.cfg.Log.With(zap.String("group", "aside"))),
	}
}

// start joins the queue groups when requests can be answered: the queue groups come last.
func (a *answering) start(ctx context.Context) error {
	if err := a.supply.start(ctx); err != nil {
		a.leave() // it may have been told to give way
		return err
	}
	if err := withTimeout(ctx, a.join); err != nil {
		return errors.Join(err, a.stop())
	}
	return nil
}

// join enters the queue groups, and returns when the server knows. The group of snowflake
// requests is entered as soon as there is a worker ID.
func (a *answering) join(ctx context.Context) error {
	a.snowflakes.start()
	err := awaitJoined(ctx, a.group.join(func() (member, error) {
		return a.openPlace(ServiceName, "segment", a.cfg.Prefix.Segment(">"), func(line *waitingLine) micro.Handler {
			return newSegmentEndpoint(a.cfg, a.supply.alloc, line, &a.figures)
		})
	}))
	if err != nil {
		return err
	}
	a.shedder.start()
	return nil
}

// awaitJoined returns what became of the first attempt to enter a queue group for which a server was there.
func awaitJoined(ctx context.Context, first <-chan error) error {
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop leaves the queue groups and answers what was delivered. Parked requests are waited
// for, so the loading half must still be at work.
func (a *answering) stop() error {
	a.leave()
	a.snowflakes.stop()
	a.awaitParked()
	return a.supply.stop()
}

// leave takes the process out of the queue groups, and returns when all requests that were
// delivered have been handled.
func (a *answering) leave() {
	groups := []*membership{a.snowflakes.group, a.group, a.aside}
	for _, group := range groups {
		group.close()
	}
	a.shedder.stop()
	awaitLeft(context.Background(), groups)
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
func (a *answering) giveWay(ctx context.Context, away bool) {
	if away {
		a.aside.join(a.openAside)
	} else {
		a.aside.leave()
		a.shedder.awaitLeft(ctx)
	}
	for _, group := range []*membership{a.group, a.snowflakes.group} {
		group.stayAway(givingWay, away)
	}
}

// openAside registers a service on a subject of this process alone. Whatever comes there is
// not for the service.
func (a *answering) openAside() (member, error) {
	nothing := micro.HandlerFunc(func(micro.Request) {})
	return a.openPlace(ServiceName, "aside", neighbours.AnswerSubject(a.cfg.Prefix, a.instance),
		func(*waitingLine) micro.Handler { return nothing })
}

func (a *answering) ready() error {
	if err := a.group.missing(); err != nil {
		return fmt.Errorf("not in the queue group of segment requests: %w", err)
	}
	return nil
}

func (a *answering) degraded() error {
	if err := a.supply.unanswered.err(); err != nil {
		return err
	}
	if err := a.snowflakes.group.missing(); err != nil {
		return fmt.Errorf("not in the queue group of snowflake requests: %w", err)
	}
	return nil
}

func (a *answering) fillStats(s *Stats) {
	a.supply.fillStats(s)
	a.snowflakes.fillStats(s)
}
