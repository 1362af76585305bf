package messages_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// answer makes nc answer requests for a tag with this message.
func answer(t *testing.T, nc *nats.Conn, tag string, reply *nats.Msg) {
	t.Helper()
	_, err := nc.Subscribe(messages.DefaultPrefix.Segment(tag), func(req *nats.Msg) {
		if err := req.RespondMsg(reply); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestClientBadPrefix: calls with a bad prefix fail at once, not at their
// deadline.
func TestClientBadPrefix(t *testing.T) {
	nc := natstest.Start(t).Connect(t)
	for _, prefix := range []messages.Prefix{"", "ids.", "IDS", "a b", "a.>"} {
		client := messages.NewClient(nc, prefix)
		_, segment := client.Next(t.Context(), "order") // there is no deadline
		_, snowflake := client.Snowflake(t.Context())
		_, prefetch := client.Prefetch("order", messages.PrefetchConfig{})
		for _, err := range []error{segment, snowflake, prefetch} {
			if !errors.Is(err, messages.ErrPrefix) {
				t.Errorf("prefix %q: %v", prefix, err)
			}
		}
	}
}

// TestClientNamesTheTag in each error that a reply carries.
func TestClientNamesTheTag(t *testing.T) {
	nc := natstest.Start(t).Connect(t)
	client := messages.NewClient(nc, messages.DefaultPrefix)
	for code, want := range map[string]string{
		"400": "no (400)", "404": "no (404)", "409": "no (409)", "507": "no (507)", "500": "no (500)",
		"4x4": `malformed reply: error code "4x4", allowed is three digits`,
	} {
		answer(t, nc, "tag"+code, message("", code, "no"))
		if _, err := client.Next(t.Context(), "tag"+code); err == nil || err.Error() != "request ids.segment.tag"+code+": "+want {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestClientErrors: each failure has its own error, and none comes with an ID
// that looks usable.
func TestClientErrors(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		answer(t, nc, "gone", message("", "404", "no such tag"))
		answer(t, nc, "short", message("5", "", ""))
		if _, err := nc.Subscribe(messages.DefaultPrefix.Segment("silent"), func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			tag  string
			n    int64
			want error
		}{
			{"no.*.wildcards", 1, messages.ErrTag},
			{"order", 0, messages.ErrCount},
			{"order", -1, messages.ErrCount},
			{"nobody", 1, nats.ErrNoResponders},
			{"gone", 1, messages.ErrNoTag},
			{"short", 2, messages.ErrReply},
			{"silent", 1, context.DeadlineExceeded},
		} {
			if got, err := client.NextN(within(t, time.Second), c.tag, c.n); got != nil || !errors.Is(err, c.want) {
				t.Errorf("%s, %d: %v, %v; want %v", c.tag, c.n, got, err, c.want)
			}
			if c.n != 1 {
				continue
			}
			if id, err := client.Next(within(t, time.Second), c.tag); id != 0 || !errors.Is(err, c.want) {
				t.Errorf("%s: %d, %v; want %v", c.tag, id, err, c.want)
			}
		}
	})
}

// TestErrorRepliesOfMicro: the headers are those of the NATS services API.
func TestErrorRepliesOfMicro(t *testing.T) {
	nc := natstest.Start(t).Connect(t)
	service, err := micro.AddService(nc, micro.Config{Name: "test", Version: "0.0.0", Endpoint: &micro.EndpointConfig{
		Subject: messages.DefaultPrefix.Segment(">"),
		Handler: micro.HandlerFunc(func(req micro.Request) { _ = req.Error("507", "used up", nil) }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Stop() }()

	_, err = messages.NewClient(nc, messages.DefaultPrefix).Next(t.Context(), "order")
	var reply *messages.Error
	if !errors.As(err, &reply) || *reply != (messages.Error{Code: messages.CodeExhausted, Text: "used up"}) {
		t.Errorf("%v", err)
	}
}
