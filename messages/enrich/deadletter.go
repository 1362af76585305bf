package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// lettersAtOnce is the number of dead letters in flight at once.
const lettersAtOnce = 64

// publishDeadLetters publishes dead letters that are not in the target,
// concurrently, and returns when all are stored. Those that go to the target
// are part of a batch.
func (e *Enricher) publishDeadLetters(ctx context.Context, dead []*nats.Msg) error {
	if len(dead) == 0 {
		return nil
	}
	e.log.Warn("events sent to dead letters", zap.Int("events", len(dead)), zap.String("first", dead[0].Header.Get(HeaderError)))
	publishers, ctx := errgroup.WithContext(ctx)
	publishers.SetLimit(lettersAtOnce)
	for _, msg := range dead {
		publishers.Go(func() error { return e.publishDeadLetter(ctx, msg) })
	}
	if err := publishers.Wait(); err != nil {
		return fmt.Errorf("publish a dead letter: %w", err)
	}
	e.figures.update(func() { e.figures.counts.DeadLetters += int64(len(dead)) })
	return nil
}

// publishDeadLetter publishes a dead letter, without the event if the stream
// refuses it otherwise.
func (e *Enricher) publishDeadLetter(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.timers.exchangeTimeout)
	defer cancel()
	// The Nats-Msg-Id keeps an early retry from appearing twice. It names the
	// event, not only its sequence, which another stream of that name could
	// share.
	msg.Header.Set(nats.MsgIdHdr, "ids-dead "+msg.Header.Get(HeaderSource)+" "+msg.Header.Get(HeaderChain))
	_, err := e.cfg.JetStream.PublishMsg(ctx, msg)
	if isTooLarge(err) {
		shorten(msg)
		_, err = e.cfg.JetStream.PublishMsg(ctx, msg)
	}
	return err
}

// isTooLarge reports whether the client or the server refused a message for its
// size.
func isTooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && slices.Contains(codesTooLarge, api.ErrorCode)
}

// codesTooLarge are the server's codes for a message, or a header, that is too
// large.
var codesTooLarge = []jetstream.ErrorCode{10054, 10097}

// makeDeadLetter makes the message about an event that cannot be stamped.
func (s stamper) makeDeadLetter(subject string, e event, reason error) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Header: copyOwnHeaders(e.Header), Data: e.Data}
	setOrigin(msg.Header, s.source, s.chain, e)
	msg.Header[HeaderSubject] = []string{e.Subject}
	msg.Header[HeaderError] = []string{strings.ToValidUTF8(reason.Error(), "?")}
	if checkSize(msg, s.letterLimit) != nil {
		shorten(msg)
	}
	return msg
}

// shorten removes the parts of a dead letter that the source still has: the
// event, and the end of a long subject.
func shorten(msg *nats.Msg) {
	header := make(nats.Header)
	for _, name := range []string{HeaderSource, HeaderChain, HeaderSubject, HeaderError, nats.MsgIdHdr} {
		if value := msg.Header.Get(name); value != "" {
			header[name] = []string{value}
		}
	}
	for _, name := range []string{HeaderSubject, HeaderError} {
		header[name][0] = fmt.Sprintf("%.100s", header[name][0])
	}
	msg.Header, msg.Data = header, nil
}
