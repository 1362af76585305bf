package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/history"
)

// config requests IDs of the tag a from next, without end.
func config(t *testing.T, next func() int64) Config {
	t.Helper()
	conn, err := nats.Connect(natstest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe(messages.DefaultPrefix.Segment("a"), func(m *nats.Msg) {
		id := next()
		_ = m.Respond(messages.AppendRange(nil, messages.Range{First: id, Last: id}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Clients: []*messages.Client{messages.NewClient(conn, messages.DefaultPrefix)}, Targets: []Target{{"a", history.Single}},
		Callers: 4, Duration: time.Hour, Batch: 1, Timeout: 5 * time.Second,
	}
}

// text returns the output and the error.
func text(t *testing.T, ctx context.Context, c Config) (string, error) {
	t.Helper()
	report, err := Run(ctx, c)
	var out strings.Builder
	if err := report.Text(&out); err != nil {
		t.Error(err)
	}
	return out.String(), err
}

// TestAnIDThatComesTwiceIsFound: also at another caller, and it is in the
// history.
func TestAnIDThatComesTwiceIsFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	c := config(t, func() int64 {
		switch id := n.Add(1); {
		case id > 1000:
			cancel()
			return id
		case id == 600:
			return 300
		default:
			return id
		}
	})
	name := filepath.Join(t.TempDir(), "history")
	var err error
	if c.History, err = history.Create(name, snowflake.Layout{}); err != nil {
		t.Fatal(err)
	}
	out, err := text(t, ctx, c)
	if !errors.Is(err, ErrBroken) || !strings.Contains(out, "FAIL  DUPLICATE: single a ") {
		t.Errorf("%v; %s", err, out)
	}
	recorded, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(recorded), " 1 300\n"); got != 2 {
		t.Errorf("the ID 300 is in the history %d times, want 2", got)
	}
}

// TestAnEndBeforeItsTime: requests in flight do not count as failed.
func TestAnEndBeforeItsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	forever := make(chan struct{})
	c := config(t, func() int64 {
		id := n.Add(1)
		if id == 100 {
			cancel()
			<-forever
		}
		return id
	})
	t.Cleanup(func() { close(forever) })
	out, err := text(t, ctx, c)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if !strings.Contains(out, "failed             0\n") || !strings.Contains(out, "ok    9") {
		t.Errorf("it says\n%s", out)
	}
}

// TestNobodyAnswers: a run without any ID fails with the error of its requests.
func TestNobodyAnswers(t *testing.T) {
	c := config(t, func() int64 { return 1 })
	c.Targets, c.Duration, c.Timeout = []Target{{"b", history.Single}}, time.Nanosecond, 200*time.Millisecond
	if out, err := text(t, t.Context(), c); !errors.Is(err, nats.ErrNoResponders) || !strings.Contains(out, " no worker: ") {
		t.Errorf("%v; %s", err, out)
	}
}

// TestLatencyCountsFromWhenItWasDue: a stall counts for each delayed request.
func TestLatencyCountsFromWhenItWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(Config{Rate: 10})
		for i := range 13 {
			if i == 3 {
				time.Sleep(time.Second) // the only caller waits for its reply
			}
			due, ok := r.nextDue(t.Context())
			want := r.began.Add(time.Duration(i) * 100 * time.Millisecond)
			if !ok || !due.Equal(want) || i < 3 && !time.Now().Equal(want) {
				t.Errorf("request %d was due after %v, want %v", i, due.Sub(r.began), want.Sub(r.began))
			}
		}
		if n := r.due(1200 * time.Millisecond); n != 12 {
			t.Errorf("%d requests are due within 1.2 s, want 12", n)
		}
	})
}
