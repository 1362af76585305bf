package worker

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestOnlyAQueuedEventIsQueued: the server has one code for all that it could not store.
func TestOnlyAQueuedEventIsQueued(t *testing.T) {
	t.Parallel()
	refused := notStored
	for _, c := range []struct {
		err  error
		want bool
	}{
		{refused(server.ErrMaxMsgsPerSubject), true},
		{fmt.Errorf("publish: %w", refused(server.ErrMaxMsgsPerSubject)), true},
		{refused(server.ErrMaxMsgs), false},
		{refused(server.ErrMaxBytes), false},
		{refused(server.ErrMsgTooLarge), false},
		{refused(server.ErrStoreClosed), false},
		{refused(syscall.ENOSPC), false},
		{refused(errors.New("")), false},
		{&jetstream.APIError{ErrorCode: 10002, Description: server.ErrMaxMsgsPerSubject.Error()}, false},
		{&jetstream.APIError{ErrorCode: 10023, Description: "insufficient resources"}, false},
		{server.ErrMaxMsgsPerSubject, false}, // of no server
		{jetstream.ErrNoStreamResponse, false},
		{nats.ErrTimeout, false},
		{nil, false},
	} {
		if got := isQueued(c.err); got != c.want {
			t.Errorf("%v (%T): queued %v, want %v", c.err, c.err, got, c.want)
		}
	}
}

// TestRealRefusals: an event is queued only if the stream holds one of its tag, as servers say
// it, alone and in a cluster, where another part of the server refuses.
func TestRealRefusals(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		account := NewAccount(t)
		testRefusals(t, natstest.JetStream(t, account.Connect(t)), 1, account.Account)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := natstest.StartCluster(t, 3)
		var accounts []*server.Account
		for _, s := range cluster.Servers {
			accounts = append(accounts, s.Running().GlobalAccount())
		}
		testRefusals(t, natstest.JetStream(t, cluster.Connect(t)), 3, accounts...)
	})
}

func testRefusals(t *testing.T, js jetstream.JetStream, replicas int, accounts ...*server.Account) {
	t.Helper()
	if err := Provision(t.Context(), js, messages.DefaultPrefix, replicas); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), loads.StreamName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	update := func(change func(*jetstream.StreamConfig)) {
		t.Helper()
		cfg := stream.CachedInfo().Config
		cfg.MaxAge = 0 // however slow the machine is
		change(&cfg)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	a := &asker{js: js, prefix: messages.DefaultPrefix, instance: "me"}
	publish := func(tag string) (err error) {
		t.Helper()
		natstest.Eventually(t, "an answer of the stream, which may be slow", func() bool {
			err = a.publishOnce(t.Context(), loads.Event{Instance: "me", Tag: tag, Step: 1, Seq: 1})
			return err == nil || errors.As(err, new(*jetstream.APIError))
		})
		return err
	}

	update(func(*jetstream.StreamConfig) {})
	_ = publish("a")
	if err := publish("a"); !isQueued(err) {
		t.Errorf("an event of a tag that has one: %v", err)
	}
	for _, full := range []struct {
		of   string
		fill func()
	}{
		{"bytes", func() { update(func(cfg *jetstream.StreamConfig) { cfg.MaxBytes = 100 }) }},
		{"messages", func() { update(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1 }) }},
		{"its account", func() {
			update(func(*jetstream.StreamConfig) {})
			for _, account := range accounts {
				if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {MaxStore: 1, MaxStreams: -1, MaxConsumers: -1}}); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		full.fill()
		err := publish("b")
		if t.Logf("full by %s: %v", full.of, err); err == nil || isQueued(err) {
			t.Errorf("the stream is full by %s: %v, want a failure", full.of, err)
		}
	}
}
