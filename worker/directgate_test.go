package worker

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// TestDirectIsBehindTheGate: whoever comes by another way than NATS gets nothing either from a process that
// gives way to another installation, is overloaded, or stops; neither IDs of tags nor snowflake IDs.
func TestDirectIsBehindTheGate(t *testing.T) {
	t.Parallel()
	cfg := Config{Log: zap.NewNop()}.WithDefaults()
	group, figures := newMembership(cfg.Log), new(requestFigures)
	loads := make(chan allocator.Load, 1)
	d := &Direct{
		requests: newFrame(cfg, new(waitingLine), figures), times: newFrame(cfg, new(waitingLine), figures),
		alloc:      allocator.New(allocator.Config{Clock: func() time.Duration { return 0 }, Load: func(l allocator.Load) { loads <- l }}),
		snowflakes: &snowflakes{}, group: group,
	}
	refused := func(why string, want error) {
		t.Helper()
		for kind, ask := range map[string]func() ([]byte, error){
			"segment":   func() ([]byte, error) { return d.Segment(t.Context(), "trend", nil, false) },
			"snowflake": func() ([]byte, error) { return d.Snowflake(t.Context(), nil) },
		} {
			if reply, err := ask(); reply != nil || !errors.Is(err, want) {
				t.Errorf("%s, %s: got %q, %v; want %v", why, kind, reply, err, want)
			}
		}
	}
	group.stayAway(givingWay, true)
	refused("gives way", messages.ErrUnavailable)
	group.stayAway(givingWay, false)
	group.stayAway(overloaded, true)
	refused("overloaded", messages.ErrBusy)
	group.stayAway(overloaded, false)

	answers := make(chan []byte, 1)
	go func() {
		reply, err := d.Segment(t.Context(), "trend", nil, false)
		if err != nil {
			t.Error(err)
		}
		answers <- reply
	}()
	l := <-loads
	d.alloc.CurrentLoad(l.Tag, l.Seq)
	d.alloc.Grant(l.Tag, l.Seq, allocator.Supply{Segment: store.Segment{First: 1, End: 11}, Step: 10, Order: store.Trend})
	if reply := <-answers; string(reply) != "1" {
		t.Errorf("got %q, want the first ID: nothing was taken before", reply)
	}
	group.close()
	refused("stopping", messages.ErrUnavailable)
}
