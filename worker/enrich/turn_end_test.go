package enrich

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// A turn ends with an error when the source cannot be read any more. An owner that only
// goes on saving the record would hold everything up for ever.
func TestTurnEndsWithItsReader(t *testing.T) {
	b := newBed(t)
	e, err := Open(t.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	if err := e.step(t.Context(), prepared{err: fmt.Errorf("read the source: %w", gone), ended: true}); !errors.Is(err, gone) {
		t.Errorf("error %v, want the reader's", err)
	}
	if err := e.step(t.Context(), prepared{err: messages.ErrUnavailable}); err != nil {
		t.Errorf("error %v because there are no IDs, want the turn to go on", err)
	}
}

// The one that asks for the turn learns that it got it, though it has asked again since.
func TestHandOverAnswersAll(t *testing.T) {
	b := newBed(t)
	e, err := Open(t.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan *nats.Msg, 16)
	sub, err := b.conn.ChanSubscribe("turn", waiting)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	short, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = b.conn.RequestWithContext(short, "turn", []byte("next"))
	if err := b.conn.PublishRequest("turn", "expired", []byte("next")); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := b.conn.Request("turn", []byte("next"), 10*time.Second)
		answered <- err
	}()
	natstest.Eventually(t, 10*time.Second, "it has asked twice", func() bool { return len(waiting) >= 2 })
	if err := e.handOver(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil || e.book.Owner != "next" {
		t.Errorf("owner %q; asking again failed with %v", e.book.Owner, err)
	}
}
