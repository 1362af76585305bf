package supply

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// notStored is a server's answer to a message that it could not store.
func notStored(err error) error {
	e := server.NewJSStreamStoreFailedError(err)
	return &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description}
}

// TestOnlyAQueuedEventIsQueued: the server has a single code for all reasons
// not to store a message.
func TestOnlyAQueuedEventIsQueued(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{notStored(server.ErrMaxMsgsPerSubject), true},
		{fmt.Errorf("publish: %w", notStored(server.ErrMaxMsgsPerSubject)), true},
		{notStored(server.ErrMaxMsgs), false},
		{notStored(server.ErrMaxBytes), false},
		{notStored(server.ErrMsgTooLarge), false},
		{notStored(server.ErrStoreClosed), false},
		{notStored(syscall.ENOSPC), false},
		{notStored(errors.New("")), false},
		{&jetstream.APIError{ErrorCode: 10002, Description: server.ErrMaxMsgsPerSubject.Error()}, false},
		{&jetstream.APIError{ErrorCode: 10023, Description: "insufficient resources"}, false},
		{server.ErrMaxMsgsPerSubject, false}, // not sent by any server
		{jetstream.ErrNoStreamResponse, false},
		{nats.ErrTimeout, false},
		{nil, false},
	} {
		if got := isQueued(c.err); got != c.want {
			t.Errorf("%v (%T): queued %v, want %v", c.err, c.err, got, c.want)
		}
	}
}

// TestRealRefusals: an event is queued only if the stream holds an event of its
// tag. It tests a single server and a cluster, where another part of the server
// refuses.
func TestRealRefusals(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		alone := natstest.Start(t)
		testRefusals(t, alone.Connect(t), 1, alone)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := natstest.StartCluster(t, 3)
		testRefusals(t, cluster.Connect(t), 3, cluster.Servers...)
	})
}

func testRefusals(t *testing.T, conn *nats.Conn, replicas int, servers ...*natstest.Node) {
	t.Helper()
	s := New(configWithJetStream(t, conn))
	defer s.goroutines.Stop()
	createLoadStream(t, s.cfg.JS, replicas)
	stream, err := s.cfg.JS.Stream(t.Context(), loadmsg.StreamName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	update := func(change func(*jetstream.StreamConfig)) {
		t.Helper()
		cfg := stream.CachedInfo().Config
		change(&cfg)
		if _, err := s.cfg.JS.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(tag string) (err error) {
		t.Helper()
		natstest.Eventually(t, "an answer of the stream, which may be slow", func() bool {
			s.publish(loadmsg.Event{Instance: "me", Tag: tag, Step: 1, Seq: 1})
			err = (<-s.published).err
			return err == nil || errors.As(err, new(*jetstream.APIError))
		})
		return err
	}

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
			for _, one := range servers {
				limits := map[string]server.JetStreamAccountLimits{"": {MaxStore: 1, MaxStreams: -1, MaxConsumers: -1}}
				if err := one.Running().GlobalAccount().UpdateJetStreamLimits(limits); err != nil {
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
