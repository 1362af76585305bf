package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/internal/subject"
)

// batch is events that are ready to be published, or the reason why there are
// none.
type batch struct {
	plan  plan
	msgs  []*nats.Msg // of the events of the plan, in their order
	dead  int         // number of dead letters among them
	saved bool        // the plan is in the record already
	lag   uint64      // number of events that follow in the source
	err   error
	ended bool // nothing follows: the preparer has ended
}

func (b *batch) add(e event, msg *nats.Msg, isLetter bool) {
	b.plan.add(e.Sequence)
	b.msgs = append(b.msgs, msg)
	if isLetter {
		b.dead++
	}
}

// errOtherPlan means that a plan in the record no longer applies: an event of
// it was removed from the source, or can no longer be stamped, or now can be.
var errOtherPlan = errors.New("planned batch has changed")

// preparer makes batches, first those of the plans in the record, then out of
// the events that follow in the source. It prepares the next batch while the
// previous is in flight.
type preparer struct {
	*Enricher
	tail *streamread.Tail
	// Sequence of the event read last, at first the position.
	last   uint64
	pools  map[string]*idPool // the IDs for the current events
	out    chan batch
	cancel context.CancelFunc
	ended  chan struct{}
}

// newPreparer prepares the plans in the record, and then the events that a tail
// reads behind a position.
func (e *Enricher) newPreparer(tail *streamread.Tail, behind uint64) *preparer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &preparer{Enricher: e, tail: tail, last: behind, pools: make(map[string]*idPool), out: make(chan batch), cancel: cancel, ended: make(chan struct{})}
	plans := slices.Clone(e.record.Plans)
	go func() {
		defer close(p.ended)
		p.run(ctx, plans)
	}()
	return p
}

// close returns when nothing is in flight any more. The IDs of a batch that was
// not received are lost.
func (p *preparer) close() {
	p.cancel()
	<-p.ended
}

func (p *preparer) run(ctx context.Context, plans []plan) {
	var err error
	for ; err == nil && len(plans) > 0; plans = plans[1:] {
		err = p.preparePlanned(ctx, plans[0])
	}
	for err == nil {
		err = p.prepareNext(ctx)
	}
	p.deliver(ctx, batch{err: err, ended: true})
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

// stall delivers the reason why there is no batch, and pauses.
func (p *preparer) stall(ctx context.Context, reason error, next time.Duration) error {
	p.deliver(ctx, batch{err: reason})
	pause.For(ctx, next)
	return ctx.Err()
}

// preparePlanned delivers the batch of a plan in the record as soon as there
// are IDs. If the events no longer match the plan, the error is errOtherPlan.
func (p *preparer) preparePlanned(ctx context.Context, saved plan) error {
	events, err := p.readPlanned(ctx, saved)
	if err != nil {
		return err
	}
	clear(p.pools)
	for {
		b, _, err := p.prepare(ctx, events)
		switch {
		case err == nil && b.plan.hasSameEvents(saved):
			b.plan, b.saved = saved, true
			p.deliver(ctx, b)
			return nil
		case !errors.Is(err, errNoIDs):
			return errOtherPlan
		}
		if err := p.stall(ctx, err, p.cfg.timers.firstPause); err != nil {
			return err
		}
	}
}

// readPlanned rereads the events of a plan, if they are still as planned: on a
// subject of the filter that is UTF-8. The leader answers in JSON, which would
// garble other subjects.
func (p *preparer) readPlanned(ctx context.Context, saved plan) (events []event, err error) {
	msgs, err := streamread.Many(ctx, p.cfg.JetStream, p.cfg.From, saved.sequences())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSource, err)
	}
	// Afterwards: the events may be those of a stream created just now.
	if err := p.checkSource(ctx, saved.Through, saved.Time); err != nil {
		return nil, err
	}
	for _, m := range msgs {
		if m != nil && subject.Covers(p.cfg.Filter, m.Subject) && !strings.ContainsRune(m.Subject, utf8.RuneError) {
			events = append(events, *m)
		}
	}
	return events, nil
}

// prepareNext delivers batches of the next events, until all of them are done.
func (p *preparer) prepareNext(ctx context.Context) error {
	behind := p.last
	events, lost, err := p.readBatch(ctx)
	if err != nil {
		return err
	}
	if lost > 0 {
		p.reportLoss(ctx, behind, lost, events[len(events)-1].Sequence)
	}
	clear(p.pools)
	for len(events) > 0 && ctx.Err() == nil {
		b, n, err := p.prepare(ctx, events)
		p.deliver(ctx, b)
		if events = events[n:]; err != nil {
			_ = p.stall(ctx, err, p.cfg.timers.firstPause) // ended, if ctx has
		}
	}
	return ctx.Err()
}

// reportLoss logs and counts events that were removed before they were read. It
// returns when the enrichment may continue.
func (p *preparer) reportLoss(ctx context.Context, behind, lost, before uint64) {
	if p.figures.countLoss(behind, lost) {
		p.log.Error("source removed events before enrichment", zap.Uint64("events", lost), zap.Uint64("before", before))
	}
	err := fmt.Errorf("%w: %d, before event %d of stream %s", ErrLost, lost, before, p.cfg.From)
	for p.cfg.OnLoss == Stop && p.stall(ctx, err, p.cfg.timers.maxPause) == nil {
	}
}

// candidate is an event of a batch in preparation.
type candidate struct {
	draft   *nats.Msg
	keepsID bool   // the event keeps its ID
	tag     string // otherwise: the tag of its new ID
	refused error  // why it cannot be stamped
}

// prepare stamps events, and publishes those that cannot be stamped as dead
// letters, up to the first event that has to wait. It returns the number of
// events done, and the reason if not all are.
func (p *preparer) prepare(ctx context.Context, events []event) (b batch, n int, err error) {
	candidates, wants := p.draftEvents(events)
	p.fillPools(ctx, p.pools, wants)
	var letters []*nats.Msg // for another stream than the target
	for _, c := range candidates {
		msg, isLetter, completeErr := p.complete(c, events[n])
		if err = completeErr; err != nil {
			break
		}
		if isLetter && !p.deadLettersInTarget {
			letters = append(letters, msg)
		} else {
			b.add(events[n], msg, isLetter)
		}
		n++
	}
	if err := p.publishDeadLetters(ctx, letters); err != nil {
		return batch{}, 0, err
	}
	if n > 0 {
		b.plan.Through, b.plan.Time = events[n-1].Sequence, events[n-1].Time
		b.lag = p.tail.Pending() + uint64(len(events)-n)
	}
	return b, n, err
}

// complete puts the ID on a candidate's draft, or makes the dead letter about
// it. Without a subject for dead letters no event may pass this event.
func (p *preparer) complete(c candidate, e event) (msg *nats.Msg, isLetter bool, err error) {
	if err = c.refused; err == nil && !c.keepsID {
		var id int64
		if id, err = p.pools[c.tag].nextID(); err == nil {
			err = p.stamper.putID(c.draft, id)
		}
	}
	if !errors.Is(err, errUnstampable) {
		return c.draft, false, err
	}
	reason := err
	if p.cfg.DeadLetter == "" {
		err = ErrNoDeadLetters
	} else {
		msg = p.stamper.makeDeadLetter(p.cfg.DeadLetter, e, reason)
		err = checkSize(msg, p.stamper.letterLimit)
	}
	if err != nil {
		err = fmt.Errorf("event %s on %.100s: %w; %w", formatOrigin(p.cfg.From, e.Sequence), e.Subject, reason, err)
	}
	return msg, true, err
}

// draftEvents separates the events that keep their ID from those that cannot be
// stamped, and counts the IDs of each tag that the others need.
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

// The bounds of a batch. By default a server accepts at most 1,000 messages in
// an atomic batch.
const (
	maxBatch      = 1000
	maxBatchBytes = 2 << 20
)

// errSource means that this reader cannot continue reading the source.
var errSource = errors.New("read the source")

// event is an event of the source.
type event = streamread.Message

// coversAll reports whether the filter matches all events of a stream with that
// configuration.
func coversAll(filter string, cfg jetstream.StreamConfig) bool {
	return filter == ">" || cfg.Mirror == nil && len(cfg.Sources) == 0 && cfg.SubjectTransform == nil &&
		!slices.ContainsFunc(cfg.Subjects, func(s string) bool { return !subject.Covers(filter, s) })
}

// readBatch waits for an event, and returns it with those that have arrived
// already, up to the bounds of a batch. lost is the number of earlier events
// that the source has removed.
func (p *preparer) readBatch(ctx context.Context) (events []event, lost uint64, err error) {
	if events, err = p.tail.NextBatch(ctx, maxBatch, maxBatchBytes); err == nil {
		lost, err = p.countRemoved(ctx, events)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errSource, err)
	}
	p.last = events[len(events)-1].Sequence
	return events, lost, nil
}

// countRemoved counts the events that the source removed before they could be
// read. Between the events read there may also be others that the filter does
// not match. The subjects of the removed events are lost: then all before the
// first event of the stream count as removed.
func (p *preparer) countRemoved(ctx context.Context, events []event) (n uint64, err error) {
	last := p.last
	missing := events[len(events)-1].Sequence - last - uint64(len(events))
	if missing == 0 || coversAll(p.cfg.Filter, p.source.CachedInfo().Config) {
		return missing, nil
	}
	info, err := p.source.Info(ctx)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		if end := min(info.State.FirstSeq, e.Sequence); end > last+1 {
			n += end - last - 1
		}
		last = e.Sequence
	}
	return n, nil
}
