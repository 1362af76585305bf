package enrich

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// An event that is alone is published as a message on the condition of its sequence, not as
// an atomic batch, which the server would stage on disk: and so it is refused if it is late.
func TestEventAloneIsNoBatch(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 1)
	late, msgs := crashed(b, 0)
	last := late.record.Last
	sent, err := b.conn.SubscribeSync("orders.ready.>")
	if err != nil {
		t.Fatal(err)
	}
	b.start(b.config())
	b.await(1)
	msg, err := sent.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if msg.Header.Get(headerBatchID) != "" {
		t.Errorf("the event was sent as a batch: %v", msg.Header)
	}
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	if err := late.publisher.publish(ctx, msgs, last); !errors.Is(err, errTargetMoved) {
		t.Errorf("late event: %v", err)
	}
	b.expectAll(1)
}

// What answers for the target without being it is not believed of an event alone either.
func TestForgedAnswerToEventAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, answer := range []string{`{"ok":true}`, `{}`, `{"stream":"READY","seq":30}`, `{"stream":"OTHER","seq":2}`, ``, `x`} {
		if _, err := b.conn.Subscribe("orders.ready.>", func(msg *nats.Msg) { _ = msg.Respond([]byte(answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	b.publish(1, 1)
	late, msgs := crashed(b, 1)
	if err := late.publisher.publish(b.Context(), msgs, late.record.Last+2); !errors.Is(err, errTargetMoved) {
		t.Errorf("event on a condition that is not true: %v", err)
	}
	b.expectAll(1)
}
