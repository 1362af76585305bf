package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/pause"
)

// batch is events that are ready to be published, or the reason why there are none.
type batch struct {
	plan  plan
	msgs  []*nats.Msg // of the events of the plan, in their order
	dead  int         // how many of them are dead letters
	saved bool        // the plan is in the record already
	lag   uint64      // how many events follow in the source
	err   error
}

// errOtherPlan says that a plan in the record cannot be carried out as it is: an event of it
// was removed from the source, or can no longer be stamped, or now can be.
var errOtherPlan = errors.New("a planned batch has changed")

// preparer makes batches, first those of the plans in the record, then out of the events
// that a reader reads. It prepares the next batch while the one before is being published.
type preparer struct {
	*Enricher
	reader *reader
	pools  map[string]*idPool // the IDs for the events at hand
	out    chan batch
	cancel context.CancelFunc
	ended  chan struct{}
}

func (e *Enricher) newPreparer(r *reader) *preparer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &preparer{Enricher: e, reader: r, pools: make(map[string]*idPool), out: make(chan batch), cancel: cancel, ended: make(chan struct{})}
	plans := append([]plan(nil), e.record.Plans...)
	go func() {
		defer close(p.ended)
		p.run(ctx, plans)
	}()
	return p
}

// close returns when nothing is under way any more. The IDs of a batch that nobody received
// are lost.
func (p *preparer) close() {
	p.cancel()
	<-p.ended
}

func (p *preparer) run(ctx context.Context, plans []plan) {
	for _, saved := range plans {
		events, err := p.readPlanned(ctx, saved)
		if err != nil || !p.prepareAll(ctx, events, &saved) {
			p.deliver(ctx, batch{err: err})
			return
		}
	}
	for ctx.Err() == nil {
		events, lost, err := p.reader.readBatch(ctx)
		if err != nil {
			p.deliver(ctx, batch{err: err})
			return
		}
		if lost > 0 {
			p.reportLoss(ctx, lost, events[0].Sequence)
		}
		p.prepareAll(ctx, events, nil)
	}
}

// deliver hands over a batch, or the reason why there is none.
func (p *preparer) deliver(ctx context.Context, b batch) {
	if b.err == nil && b.plan.Through == 0 {
		return
	}
	select {
	case p.out <- b:
	case <-ctx.Done():
	}
}

// reportLoss logs and counts events that were removed before they were read, ahead of the event
// with that sequence or a later one. It returns when the enrichment may go on.
func (p *preparer) reportLoss(ctx context.Context, lost, before uint64) {
	err := fmt.Errorf("%w: %d, about event %d of stream %s", ErrLost, lost, before, p.cfg.From)
	p.figures.lost.Add(int64(lost))
	p.log.Error(err.Error())
	for p.cfg.OnLoss == Stop && ctx.Err() == nil {
		p.deliver(ctx, batch{err: err})
		pause.For(ctx, maxPause)
	}
}

// readPlanned reads the events of a plan that are still there.
func (p *preparer) readPlanned(ctx context.Context, saved plan) ([]event, error) {
	msgs, err := leader.Many(ctx, p.cfg.JetStream, p.cfg.From, saved.sequences())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSource, err)
	}
	var events []event
	for _, m := range msgs {
		if m != nil {
			events = append(events, *m)
		}
	}
	return events, nil
}

// prepareAll makes batches of events and delivers them. Events of a plan have to be one
// batch, and to be those of the plan; else it delivers errOtherPlan and returns false.
func (p *preparer) prepareAll(ctx context.Context, events []event, saved *plan) bool {
	clear(p.pools)
	for ctx.Err() == nil && (len(events) > 0 || saved != nil) {
		b, n, err := p.prepare(ctx, events)
		switch {
		case saved != nil && err == nil && b.plan.hasSameEvents(*saved):
			b.plan, b.saved = *saved, true
			p.deliver(ctx, b)
			return true
		case saved != nil && (err == nil || !errors.Is(err, errNoIDs)):
			p.deliver(ctx, batch{err: errOtherPlan})
			return false
		case saved == nil:
			p.deliver(ctx, b)
			events = events[n:]
		}
		if err != nil {
			p.deliver(ctx, batch{err: err})
			pause.For(ctx, firstPause)
		}
	}
	return saved == nil
}

// candidate is an event of a batch that is being prepared.
type candidate struct {
	draft   *nats.Msg
	keepsID bool   // the event keeps the ID that it has
	tag     string // otherwise: the tag of the ID that it gets
	refused error  // why it cannot be stamped
}

// prepare stamps events, and sends those that cannot be stamped to the dead letters, up to
// the first event that has to wait. It returns how many events are done so, and why not all.
func (p *preparer) prepare(ctx context.Context, events []event) (b batch, n int, err error) {
	candidates, wants := p.draftEvents(events)
	p.fillPools(ctx, p.pools, wants)
	var dead []*nats.Msg
	for _, c := range candidates {
		e := events[n]
		if err = p.complete(c); err != nil && !errors.Is(err, errUnstampable) {
			break
		}
		if err == nil {
			b.plan.add(e.Sequence)
			b.msgs = append(b.msgs, c.draft)
		} else if err = p.refusal(e, err); errors.Is(err, ErrNoDeadLetters) {
			break
		} else {
			letter := p.stamper.makeDeadLetter(p.cfg.DeadLetter, e, err)
			if err = nil; p.deadLettersInTarget {
				b.plan.add(e.Sequence)
				b.msgs = append(b.msgs, letter)
				b.dead++
			} else {
				dead = append(dead, letter)
			}
		}
		n++
	}
	if buryErr := p.publishDeadLetters(ctx, dead); buryErr != nil {
		return batch{}, 0, buryErr
	}
	if n > 0 {
		b.plan.Through, b.plan.Time = events[n-1].Sequence, events[n-1].Time
		b.lag = p.reader.Pending() + uint64(len(events)-n)
	}
	return b, n, err
}

// complete puts the ID on a candidate's draft.
func (p *preparer) complete(c candidate) error {
	if c.refused != nil || c.keepsID {
		return c.refused
	}
	id, err := p.pools[c.tag].nextID()
	if err != nil {
		return err
	}
	return p.stamper.putID(c.draft, id)
}

// draftEvents finds out which events keep the ID that they have, which cannot be stamped,
// and how many IDs of each tag the others need.
func (p *preparer) draftEvents(events []event) (candidates []candidate, wants map[string]int64) {
	candidates, wants = make([]candidate, len(events)), make(map[string]int64)
	for i, event := range events {
		c := &candidates[i]
		c.draft, c.keepsID, c.refused = p.stamper.draft(event)
		if c.refused == nil && !c.keepsID {
			c.tag = p.ids.tagFor(event.Subject)
			wants[c.tag]++
		}
	}
	return candidates, wants
}
