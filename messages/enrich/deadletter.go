package enrich

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// deadLetter is an event that cannot be stamped, and why.
type deadLetter struct {
	event  event
	reason error
}

// publishDeadLetters publishes the dead letters of a batch, and logs one line about them.
func (e *Enricher) publishDeadLetters(ctx context.Context, dead []deadLetter) error {
	if len(dead) == 0 {
		return nil
	}
	// Saved first: dead letters may go to the target, behind the position in the record.
	if err := e.saveRecord(ctx); err != nil {
		return err
	}
	for _, d := range dead {
		if err := e.publishDeadLetter(ctx, d); err != nil {
			return err
		}
	}
	e.log.Warn("events were sent to the dead-letter subject", zap.Int("events", len(dead)),
		zap.Uint64("first", dead[0].event.seq), zap.Error(dead[0].reason))
	return nil
}

// publishDeadLetter publishes an event that cannot be stamped as a dead letter. Without a
// subject for dead letters it returns an error: then no event may pass this one.
func (e *Enricher) publishDeadLetter(ctx context.Context, d deadLetter) error {
	reason := fmt.Errorf("event %s on %s: %w", formatOrigin(e.cfg.From, d.event.seq), d.event.subject, d.reason)
	if e.cfg.DeadLetter == "" {
		return fmt.Errorf("%w; there is no dead-letter subject, so nothing behind it is enriched", reason)
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	var opts []jetstream.PublishOpt
	if e.deadLettersInTarget { // a late one must not be mistaken for an event of a plan
		opts = append(opts, jetstream.WithExpectLastSequence(e.record.Last))
	}
	ack, err := e.cfg.JetStream.PublishMsg(ctx, e.stamper.makeDeadLetter(e.cfg.DeadLetter, d.event, reason, e.limit), opts...)
	if err != nil {
		return fmt.Errorf("publish the dead letter of %w: %w", reason, err)
	}
	if e.deadLettersInTarget && !ack.Duplicate {
		e.record.Last = ack.Sequence
	}
	e.figures.dead.Add(1)
	e.log.Debug("dead letter", zap.Error(reason))
	return nil
}

// makeDeadLetter makes the message about an event that cannot be stamped. If the event does
// not fit into limit bytes it is left out: the source still has it. The Nats-Msg-Id keeps a
// second try soon after the first from appearing twice.
func (s stamper) makeDeadLetter(subject string, e event, reason error, limit int) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Header: copyOwnHeaders(e.header), Data: e.data}
	s.setReason(msg, e, reason)
	if wireSize(msg) > limit {
		msg = &nats.Msg{Subject: subject, Header: nats.Header{}}
		s.setReason(msg, e, reason)
	}
	return msg
}

func (s stamper) setReason(msg *nats.Msg, e event, reason error) {
	msg.Header.Set(HeaderSource, formatOrigin(s.source, e.seq))
	msg.Header.Set(HeaderSubject, e.subject)
	msg.Header.Set(HeaderError, strings.ToValidUTF8(reason.Error(), "?"))
	msg.Header.Set(nats.MsgIdHdr, "ids-dead "+formatOrigin(s.source, e.seq))
}
