package streamread

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// newTail returns a tail of a stream.
func newTail(t *testing.T, js jetstream.JetStream, stream jetstream.Stream, from uint64) *Tail {
	t.Helper()
	tail, err := OpenTail(t.Context(), js, stream, ">", from)
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

func newStream(t *testing.T) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t))
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return js, stream
}

func publish(t *testing.T, js jetstream.JetStream, n int, data string) {
	t.Helper()
	for range n {
		if _, err := js.Publish(t.Context(), "s.1", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
}

// A tail returns present and later messages, and those that look like a status
// of the server, within its bounds.
func TestTail(t *testing.T) {
	t.Parallel()
	js, stream := newStream(t)
	publish(t, js, 5, "x")
	tail := newTail(t, js, stream, 3)
	defer tail.Close()
	var got []uint64
	read := func(most, bytes int) (n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		batch, err := tail.NextBatch(ctx, most, bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range batch {
			got = append(got, m.Sequence)
		}
		return len(batch)
	}
	if n := read(1, 1000); n != 1 || tail.Pending() != 2 {
		t.Errorf("%d messages, %d to follow, want 1 and 2", n, tail.Pending())
	}
	if n := read(100, 1); n != 1 {
		t.Errorf("%d messages of one byte at most, want 1", n)
	}
	read(100, 1000)
	if n, err := Count(t.Context(), stream, ">", 2); n != 4 || err != nil {
		t.Errorf("%d messages from the second on, want 4: %v", n, err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "s.1", Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}}); err != nil {
		t.Fatal(err)
	}
	read(100, 1000)
	publish(t, js, 1, "later")
	read(100, 1000)
	if fmt.Sprint(got) != "[3 4 5 6 7]" {
		t.Errorf("messages %v, want 3 to 7", got)
	}
}

// Reading ends on Close, even if the consumer is gone.
func TestTailCloses(t *testing.T) {
	t.Parallel()
	js, stream := newStream(t)
	for range 30 {
		tail := newTail(t, js, stream, 1)
		if err := stream.DeleteConsumer(t.Context(), tail.consumer); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() { tail.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(natstest.Patience):
			t.Fatal("the tail does not close")
		}
	}
}

// A tail detects a consumer that does not deliver the stream's messages.
func TestConsumerDeliversNothing(t *testing.T) {
	t.Parallel()
	js, stream := newStream(t)
	tail := newTail(t, js, stream, 1)
	defer tail.Close()
	tail.requested = 2 * batch // so that it requests nothing
	publish(t, js, 3, "x")
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	if _, err := tail.NextBatch(ctx, 10, 1000); !errors.Is(err, errUnreliable) {
		t.Errorf("error %v, want errUnreliable", err)
	}
}

// A tail ends if its stream is recreated.
func TestTailOfAStreamMadeAgain(t *testing.T) {
	t.Parallel()
	js, stream := newStream(t)
	publish(t, js, 1, "x")
	tail := newTail(t, js, stream, 1)
	defer tail.Close()
	if _, err := tail.NextBatch(t.Context(), 10, 1000); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), stream.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	publish(t, js, 3, "y")
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	if batch, err := tail.NextBatch(ctx, 10, 1000); !errors.Is(err, errUnreliable) {
		t.Errorf("%d messages, error %v, want errUnreliable", len(batch), err)
	}
}

// A stream that ends before the messages read was restored or recreated, and
// the server sent no notice.
func TestTailBehindTheEnd(t *testing.T) {
	t.Parallel()
	js, stream := newStream(t)
	publish(t, js, 5, "x")
	read := func(from uint64, patience time.Duration) error {
		tail := newTail(t, js, stream, from)
		defer tail.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := tail.NextBatch(ctx, 1, 1000)
		return err
	}
	if err := read(7, natstest.Patience); !errors.Is(err, errUnreliable) {
		t.Errorf("past the end: %v, want errUnreliable", err)
	}
	if err := read(6, 2*quietAfter); errors.Is(err, errUnreliable) {
		t.Errorf("at the end: %v", err)
	}
}
