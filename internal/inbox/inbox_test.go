package inbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/inbox"
	"github.com/idworker/idworker/testing/natstest"
)

func open(t *testing.T, conn *nats.Conn, room int) *inbox.Inbox {
	t.Helper()
	b, err := inbox.Subscribe(conn, "answers", room)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func publish(t *testing.T, conn *nats.Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := conn.Publish("answers", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestNext: messages are returned in order, even after the context has ended or
// the inbox is closed. Messages beyond its room are dropped.
func TestNext(t *testing.T) {
	srv := natstest.Start(t)
	conn := srv.Connect(t, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	b := open(t, conn, 2)
	publish(t, conn, "a", "b", "c")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if msg, err := b.Next(ended); err != nil || string(msg.Data) != "a" {
		t.Errorf("%v, %v; want a", msg, err)
	}
	b.Unsubscribe()
	if msg, err := b.Next(t.Context()); err != nil || string(msg.Data) != "b" {
		t.Errorf("%v, %v; want b", msg, err)
	}
	if msg, err := b.Next(t.Context()); !errors.Is(err, nats.ErrBadSubscription) {
		t.Errorf("%v, %v; want %v", msg, err, nats.ErrBadSubscription)
	}
}

// TestEnds: no reader waits forever at a closed inbox, however it was closed.
func TestEnds(t *testing.T) {
	srv := natstest.Start(t)
	for name, end := range map[string]func(*nats.Conn, *inbox.Inbox){
		"connection closed":  func(conn *nats.Conn, _ *inbox.Inbox) { conn.Close() },
		"connection drained": func(conn *nats.Conn, _ *inbox.Inbox) { _ = conn.Drain() },
		"unsubscribed":       func(_ *nats.Conn, b *inbox.Inbox) { b.Unsubscribe() },
	} {
		conn := srv.Connect(t)
		other, err := inbox.Open(conn, 1)
		if err != nil {
			t.Fatal(err)
		}
		inboxes := []*inbox.Inbox{open(t, conn, 1)}
		if name != "unsubscribed" { // from a shared subscription, which lasts
			inboxes = append(inboxes, other)
		}
		for _, b := range inboxes {
			got := make(chan error, 1)
			go func() {
				_, err := b.Next(context.Background())
				got <- err
			}()
			end(conn, b)
			natstest.Eventually(t, name+" to be noticed", func() bool { return len(got) > 0 })
			if err := <-got; !errors.Is(err, nats.ErrBadSubscription) {
				t.Errorf("%s: %v, want %v", name, err, nats.ErrBadSubscription)
			}
		}
	}
}

// TestNobody: the server reports that no process listens.
func TestNobody(t *testing.T) {
	conn := natstest.Start(t).Connect(t)
	b := open(t, conn, 1)
	if err := conn.PublishRequest("question", "answers", nil); err != nil {
		t.Fatal(err)
	}
	if msg, err := b.Next(t.Context()); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("%v, %v; want %v", msg, err, nats.ErrNoResponders)
	}
}

// TestShared: many inboxes share one subscription, and each receives its own
// messages only. Nobody can guess the subject of one from those of others. If the
// server refuses the subscription, the next inbox subscribes again.
func TestShared(t *testing.T) {
	conn := natstest.Start(t).Connect(t)
	for range 2 {
		var all []*inbox.Inbox
		for range 3 {
			b, err := inbox.Open(conn, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) > 0 && all[0].Subject == b.Subject {
				t.Fatalf("two inboxes have the subject %s", b.Subject)
			}
			if random := strings.TrimPrefix(b.Subject, strings.TrimSuffix(b.Pattern, "*")); len(random) < len(rand.Text()) {
				t.Errorf("the subject %s has only %q of its own", b.Subject, random)
			}
			all = append(all, b)
		}
		if n := conn.NumSubscriptions(); n != 1 {
			t.Fatalf("%d subscriptions, want 1", n)
		}
		all[0].Unsubscribe()
		for _, b := range all {
			if err := conn.Publish(b.Subject, []byte(b.Subject)); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range all[1:] {
			if msg, err := b.Next(t.Context()); err != nil || string(msg.Data) != b.Subject {
				t.Errorf("%v, %v; want %s", msg, err, b.Subject)
			}
		}
		refusal := errors.New("refused")
		all[2].Drop(refusal)
		for _, b := range all[1:] {
			if msg, err := b.Next(t.Context()); !errors.Is(err, refusal) {
				t.Errorf("%v, %v; want %v", msg, err, refusal)
			}
		}
	}
}
