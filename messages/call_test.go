package messages_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// long is a deadline that no test should reach.
var long = natstest.Patience

// respond makes nc answer requests for a tag, with their numbers from 1 on.
func respond(t testing.TB, nc *nats.Conn, tag string, handle func(number int64, req *nats.Msg)) (requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	_, err := nc.Subscribe(messages.DefaultPrefix.Segment(tag), func(req *nats.Msg) { handle(requests.Add(1), req) })
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(within(t, long)); err != nil {
		t.Fatal(err)
	}
	return requests
}

func send(t testing.TB, req, reply *nats.Msg) {
	if err := req.RespondMsg(reply); err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // the test is over
		t.Errorf("respond: %v", err)
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestClientGivesUp: a call lasts as long as its context, to the nanosecond, and
// its error begins with the reason why there was no ID. A cancelled call has that
// reason, too.
func TestClientGivesUp(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		answer(t, nc, "unavailable", message("", "503", "no IDs"))
		respond(t, nc, "silent", func(int64, *nats.Msg) {})
		for tag, c := range map[string]struct {
			reason error
			text   string
		}{
			"unavailable": {messages.ErrUnavailable, "no IDs (503)"},
			"silent":      {nats.ErrTimeout, nats.ErrTimeout.Error()},
		} {
			const patience = 3 * time.Second
			began := time.Now()
			_, err := client.Next(within(t, patience), tag)
			if took := time.Since(began); took != patience {
				t.Errorf("%s: gave up after %v, want %v", tag, took, patience)
			}
			if text := fmt.Sprint(err); !strings.HasPrefix(text, "request ids.segment."+tag+": "+c.text+" (context deadline exceeded after ") || !strings.HasSuffix(text, " tries)") {
				t.Errorf("%s: text %q", tag, text)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := client.Next(ctx, tag); !errors.Is(err, context.Canceled) || !errors.Is(err, c.reason) {
				t.Errorf("%s, cancelled: %v; want %v", tag, err, c.reason)
			}
		}
	})
}

// TestClientTriesOften: a frozen worker receives its share of the tries, so
// their number decides how many calls fail. docs/protocol.md has the odds.
func TestClientTriesOften(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(srv.Connect(t), messages.DefaultPrefix)
		for patience, least := range map[time.Duration]int64{time.Second: 7, 5 * time.Second: 23} {
			for round := range 20 {
				tag := fmt.Sprint(patience.Milliseconds(), "-", round)
				requests := respond(t, nc, tag, func(int64, *nats.Msg) {})
				_, err := client.Next(within(t, patience), tag)
				if n := requests.Load(); n < least {
					t.Errorf("%d tries in %v, want %d at least: %v", n, patience, least, err)
				}
			}
		}
	})
}

// TestClientSubscribesAgain: the right to the inbox is revoked, another refusal
// hides that, and the right comes back. Then calls are answered again.
func TestClientSubscribesAgain(t *testing.T) {
	t.Parallel()
	var options *server.Options
	mayReceive := func(o *server.Options, inbox string) {
		o.Users = []*server.User{{Username: "all"}, {Username: "order", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"ids.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{inbox}},
		}}}
	}
	srv := natstest.Start(t, func(o *server.Options) {
		mayReceive(o, "_INBOX.>")
		options = o
	})
	answer(t, srv.Connect(t, nats.UserInfo("all", "")), "order", message("5", "", ""))
	nc := srv.Connect(t, nats.UserInfo("order", ""), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	client := messages.NewClient(nc, messages.DefaultPrefix)
	if _, err := client.Next(within(t, long), "order"); err != nil {
		t.Fatal(err)
	}
	reload := func(inbox string) {
		t.Helper()
		o := options.Clone()
		mayReceive(o, inbox)
		if err := srv.Running().ReloadOptions(o); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		natstest.Eventually(t, "refusal of "+what, func() bool {
			err := nc.LastError()
			return err != nil && strings.Contains(err.Error(), what)
		})
	}
	reload("_NONE.>")
	refused("_INBOX.")
	if err := nc.Publish("forbidden", nil); err != nil {
		t.Fatal(err)
	}
	refused("forbidden")
	reload("_INBOX.>")
	if _, err := client.Next(within(t, long), "order"); err != nil {
		t.Errorf("the right came back: %v", err)
	}
}

// TestRefusedInbox: a user that may not receive replies is shown why at once, with
// the setting that chooses where they go.
func TestRefusedInbox(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "order", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"ids.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_order.>"}},
		}}}
	})
	nc := srv.Connect(t, nats.UserInfo("order", ""), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	_, err := messages.NewClient(nc, messages.DefaultPrefix).Next(within(t, long), "order")
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "nats.CustomInboxPrefix") {
		t.Errorf("%v; want the refusal, and nats.CustomInboxPrefix", err)
	}
}

// TestClientLeavesNothingBehind: after a call, no subscription is left but the
// inbox that all requests share.
func TestClientLeavesNothingBehind(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		_, _ = client.Next(within(t, time.Second), "nobody")
		before := nc.NumSubscriptions()
		for range 5 {
			_, _ = client.Next(within(t, time.Second), "nobody")
		}
		if n := nc.NumSubscriptions(); n != before || n > 1 {
			t.Errorf("%d subscriptions, were %d", n, before)
		}
	})
}
