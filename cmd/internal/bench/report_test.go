package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

func call(kind history.CallKind, tag string, first, last int64) *history.Call {
	return &history.Call{Kind: kind, Tag: tag, Count: last - first + 1, Ranges: []messages.Range{{First: first, Last: last}}}
}

// TestTallyFinds: a broken promise is found and counted, at any caller.
func TestTallyFinds(t *testing.T) {
	few := call("batch", "a", 1, 2)
	few.Count = 3
	for name, c := range map[string]struct {
		calls []*history.Call
		want  Broken
	}{
		"nothing":                {[]*history.Call{call("single", "a", 2, 2), call("single", "b", 2, 2), call("single", "a", 1, 1)}, Broken{}},
		"an ID twice":            {[]*history.Call{call("batch", "a", 1, 100), call("single", "a", 7, 7)}, Broken{Duplicates: 1}},
		"the same range twice":   {[]*history.Call{call("batch", "a", 1, 100), call("batch", "a", 1, 100)}, Broken{Duplicates: 1}},
		"a strict tag went back": {[]*history.Call{call("strict", "a", 5, 6), call("strict", "a", 1, 2)}, Broken{OutOfOrder: 1}},
		"a snowflake ID below one of the same worker": {[]*history.Call{call("snowflake", "", 9<<22, 9<<22), call("snowflake", "", 8<<22, 8<<22)}, Broken{OutOfOrder: 1}},
		"a snowflake ID below one of another worker":  {[]*history.Call{call("snowflake", "", 9<<22, 9<<22), call("snowflake", "", 8<<22|1<<12, 8<<22|1<<12)}, Broken{}},
		"too few IDs": {[]*history.Call{few}, Broken{NoReplies: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(Config{Layout: snowflake.Default()})
			for _, one := range c.calls {
				one.Sent = r.now()
				r.add(one, time.Millisecond, nil)
			}
			found := r.report.Broken
			if found.Duplicates != c.want.Duplicates || found.OutOfOrder != c.want.OutOfOrder || found.NoReplies != c.want.NoReplies {
				t.Errorf("found %+v, want %+v", found, c.want)
			}
			if err := r.verdict(t.Context()); errors.Is(err, ErrBroken) != (c.want.count() > 0) {
				t.Errorf("the verdict is %v", err)
			}
		})
	}
}

// TestFindingsAreBounded: a server with endless faults does not fill memory.
func TestFindingsAreBounded(t *testing.T) {
	r := newRun(Config{})
	for range 1000 {
		r.add(call("single", "a", 7, 7), time.Millisecond, nil)
		r.add(call("single", "a", 0, 0), time.Millisecond, fmt.Errorf("error %p", new(int)))
	}
	if broken := r.report.Broken; broken.Duplicates != 999 || len(broken.Findings) != maxFindings {
		t.Errorf("%d duplicates, %d are kept, want 999 and %d", broken.Duplicates, len(broken.Findings), maxFindings)
	}
	if failures := r.report.Failures; len(failures) != 1 || failures["other"].Count != 1000 {
		t.Errorf("failures %v, want 1000 others", failures)
	}
}

func TestReasons(t *testing.T) {
	late := func(reason error) error {
		return fmt.Errorf("request ids.segment.a: %w after 3 tries: %w", context.DeadlineExceeded, reason)
	}
	for want, err := range map[string]error{
		"503": late(&messages.Error{Code: messages.CodeUnavailable, Text: "no ID"}), "429": late(messages.ErrBusy), "404": messages.ErrNoTag,
		"no worker": late(nats.ErrNoResponders), "no answer": late(nats.ErrTimeout), "disconnected": late(nats.ErrDisconnected),
		"malformed answer": fmt.Errorf("%w: x", messages.ErrReply), "other": errors.New("x"),
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// TestReport: the report of a run with every kind of event.
func TestReport(t *testing.T) {
	r := newRun(Config{Callers: 2, Batch: 1, Targets: []Target{{"a", history.Strict}, {"", history.Snowflake}}})
	r.add(call("strict", "a", 7, 7), time.Millisecond, nil)
	r.add(call("strict", "a", 7, 7), 3*time.Millisecond, nil)
	r.add(call("strict", "a", 8, 8), 0, messages.ErrBusy)
	r.report.finish(time.Second, 1_000_000)
	var out strings.Builder
	if err := r.report.Text(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 callers for 1.0 s, IDs per request: 1, of: a (strict), snowflake IDs\n", "failed             1\n                   1 429: too many parked requests (429)\n",
		"p50 1ms,", "max 3ms\n", "  <   1.05ms          1 ██", "  <    2.1ms          0\n  <   4.19ms          1 ██", "FAIL  DUPLICATE: strict a ",
		"note  order of snowflake IDs not checked", "note  999,997 requests due while no caller was free",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "ok ") {
		t.Errorf("the report says that something is ok:\n%s", &out)
	}
}
