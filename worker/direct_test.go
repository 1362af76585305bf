package worker

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/internal/answer"
)

// open is a barrier that holds nothing.
type open struct{}

func (open) Pass() {}

// TestDirectIsBehindTheGate: a direct request gets neither IDs of tags nor
// snowflake IDs from a process that stands by for another installation, is
// overloaded, or stops. The log has its trace, and that of each refusal beyond
// the gate.
func TestDirectIsBehindTheGate(t *testing.T) {
	t.Parallel()
	group := newQueueGroup(zap.NewNop())
	alloc := allocator.New(allocator.Config{Clock: func() time.Duration { return 0 }})
	core, logged := observer.New(zap.InfoLevel)
	answers := answer.New(answer.Config{Prefix: messages.DefaultPrefix, MaxBatch: 10, Slow: time.Hour, Log: zap.New(core)}, alloc)
	workerID := &workerID{group: newQueueGroup(zap.NewNop())}
	d := &Direct{&Process{answers: answers, groups: &queueGroups{segments: group, workerID: workerID}, barrier: open{}}}
	segment := func(trace string) ([]byte, error) { return d.Segment(t.Context(), "trend", nil, false, trace) }
	snowflakes := func(count string) func(string) ([]byte, error) {
		return func(trace string) ([]byte, error) { return d.Snowflake(t.Context(), []byte(count), trace) }
	}
	refuses := func(why string, want error, ask func(trace string) ([]byte, error)) {
		t.Helper()
		if reply, err := ask(why); reply != nil || !errors.Is(err, want) {
			t.Errorf("%s: got %q, %v; want %v", why, reply, err, want)
		}
		if lines := logged.TakeAll(); len(lines) != 1 || lines[0].ContextMap()[messages.TraceparentHeader] != why {
			t.Errorf("%s: the log has %v, want the trace %[1]q", why, lines)
		}
	}
	refused := func(why string, want error) {
		t.Helper()
		refuses(why+", segment", want, segment)
		refuses(why+", snowflake", want, snowflakes(""))
	}
	group.standBy(true)
	refused("stands by", messages.ErrUnavailable)
	group.standBy(false)
	group.set(nil, errLeftOverloaded)
	refused("overloaded", messages.ErrBusy)
	group.set(nil, errNotEntered)

	replies := make(chan []byte, 1)
	go func() {
		reply, err := d.Segment(t.Context(), "trend", nil, false, "")
		if err != nil {
			t.Error(err)
		}
		replies <- reply
	}()
	<-alloc.Ready()
	for l, ok := alloc.Send(); ok; l, ok = alloc.Send() {
		alloc.Answer(l.Tag, l.Seq, allocator.Answer{Segment: store.Segment{First: 1, End: 11}, Step: 10, Order: store.Trend})
	}
	for _, r := range alloc.Replies() {
		r.From.(interface {
			Reply(ids []store.Segment, err error)
		}).Reply(r.IDs, r.Err)
	}
	if reply := <-replies; string(reply) != "1" {
		t.Errorf("got %q, want the first ID: nothing was taken before", reply)
	}
	workerID.state.Store(&lease.State{Err: errNotClaimed})
	refuses("no worker ID", messages.ErrUnavailable, snowflakes(""))
	workerID.state.Store(&lease.State{Generator: new(snowflake.Generator)})
	refuses("a bad count", messages.ErrMalformed, snowflakes("0"))

	group.close()
	refused("stopping", messages.ErrUnavailable)
	d.process.groups.segments = nil
	workerID.group.set(nil, errNotEntered)
	refuses("snowflake IDs only", messages.ErrUnavailable, segment)
}
