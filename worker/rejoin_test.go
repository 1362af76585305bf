package worker

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNextWorkerIDWithBacklog: a worker ID is lost and the next one claimed while
// requests wait. What had been delivered is answered beside what comes in, and the
// answers must not get into each other.
func TestNextWorkerIDWithBacklog(t *testing.T) {
	t.Parallel()
	const requests, batch = 500, 500
	net := NewAccount(t)
	cfg := Config{Requests: net.Connect(t), Version: "0.0.1"}.WithDefaults()
	s := newSnowflakes(processInfo{cfg: cfg, stats: func() Stats { return Stats{} }}, nil)
	t.Cleanup(s.group.close)
	layout, err := snowflake.ParseLayout("38:1ms/s23/w2@1735689600000") // long replies, so that requests queue up
	if err != nil {
		t.Fatal(err)
	}
	join := func(id int64) *snowflake.Generator {
		g, err := snowflake.New(snowflake.Settings{Layout: layout, Worker: id, Fence: snowflake.Fence{Hi: snowflake.Forever}})
		if err == nil {
			err = <-s.answerWith(g)
		}
		if err != nil {
			t.Fatal(err)
		}
		return g
	}

	t.Cleanup(s.group.close) // or its goroutine is taken for a leak of others
	caller := net.Connect(t)
	inbox := caller.NewInbox()
	replies, err := caller.SubscribeSync(inbox)
	if err == nil {
		err = replies.SetPendingLimits(-1, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	first := join(1)
	for i := range 2 * requests {
		if err := caller.PublishRequest(cfg.Prefix.Snowflake(), inbox, messages.EncodeCount(batch)); err != nil {
			t.Fatal(err)
		}
		if i == requests {
			if err := caller.Flush(); err != nil {
				t.Fatal(err)
			}
			first.Revoke()
			s.group.leave()
			join(2)
		}
	}
	var ranges []messages.Range
	for range 2 * requests {
		msg, err := replies.NextMsg(natstest.Patience)
		if errors.Is(err, nats.ErrNoResponders) { // between leaving and joining
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := messages.DecodeReply(msg, batch)
		if err != nil && !errors.Is(err, messages.ErrUnavailable) && !errors.Is(err, messages.ErrBusy) {
			t.Fatal(err)
		}
		ranges = append(ranges, got...)
	}
	if len(ranges) == 0 {
		t.Error("no request got IDs")
	}
	slices.SortFunc(ranges, func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].First <= ranges[i-1].Last {
			t.Fatalf("%v and %v overlap", ranges[i-1], ranges[i])
		}
	}
}
