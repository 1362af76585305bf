package worker

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/internal/answer"
)

// TestDirectIsBehindTheGate: a direct request gets neither IDs of tags nor
// snowflake IDs from a process that stands by for another installation, is
// overloaded, or stops.
func TestDirectIsBehindTheGate(t *testing.T) {
	t.Parallel()
	group := newQueueGroup(zap.NewNop())
	alloc := allocator.New(allocator.Config{Clock: func() time.Duration { return 0 }})
	answers := answer.New(answer.Config{Prefix: messages.DefaultPrefix, MaxBatch: 10}, alloc)
	d := &Direct{&Process{answers: answers, groups: &queueGroups{segments: group}}}
	refused := func(why string, want error) {
		t.Helper()
		for kind, ask := range map[string]func() ([]byte, error){
			"segment":   func() ([]byte, error) { return d.Segment(t.Context(), "trend", nil, false, "") },
			"snowflake": func() ([]byte, error) { return d.Snowflake(t.Context(), nil, "") },
		} {
			if reply, err := ask(); reply != nil || !errors.Is(err, want) {
				t.Errorf("%s, %s: got %q, %v; want %v", why, kind, reply, err, want)
			}
		}
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
	group.close()
	refused("stopping", messages.ErrUnavailable)
}
