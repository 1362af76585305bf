package enrich

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// deadLettersTimeout bounds the publishing of a batch's dead letters. The turn goes on
// meanwhile.
const deadLettersTimeout = time.Minute

// publishDeadLetters publishes dead letters that are not in the target, all at once, and
// returns when all are stored. Those that go to the target are part of a batch.
func (e *Enricher) publishDeadLetters(ctx context.Context, dead []*nats.Msg) error {
	if len(dead) == 0 {
		return nil
	}
	e.log.Warn("events are sent to the dead-letter subject", zap.Int("events", len(dead)), zap.String("first", dead[0].Header.Get(HeaderError)))
	ctx, cancel := context.WithTimeout(ctx, deadLettersTimeout)
	defer cancel()
	acks := make([]jetstream.PubAckFuture, 0, len(dead))
	for _, msg := range dead {
		// The Nats-Msg-Id keeps a second try soon after the first from appearing twice. It
		// names the event, whatever was at its place in another stream of that name.
		msg.Header.Set(nats.MsgIdHdr, "ids-dead "+msg.Header.Get(HeaderSource)+" "+msg.Header.Get(HeaderChain))
		ack, err := e.cfg.JetStream.PublishMsgAsync(msg, jetstream.WithStallWait(exchangeTimeout))
		if err != nil {
			return fmt.Errorf("publish a dead letter: %w", err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("publish a dead letter: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.figures.dead.Add(int64(len(dead)))
	return nil
}

// makeDeadLetter makes the message about an event that cannot be stamped. If the event does
// not fit it is left out: the source still has it.
func (s stamper) makeDeadLetter(subject string, e event, reason error) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Header: copyOwnHeaders(e.Header), Data: e.Data}
	s.setReason(msg, e, reason)
	if checkSize(msg, s.limit) != nil {
		msg = &nats.Msg{Subject: subject, Header: nats.Header{}}
		s.setReason(msg, e, reason)
	}
	return msg
}

func (s stamper) setReason(msg *nats.Msg, e event, reason error) {
	setOrigin(msg.Header, s.source, s.chain, e)
	msg.Header.Set(HeaderSubject, e.Subject)
	msg.Header.Set(HeaderError, strings.ToValidUTF8(reason.Error(), "?"))
}
