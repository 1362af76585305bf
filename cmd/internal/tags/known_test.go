package tags

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// knownAt is what an installation without history knows.
func knownAt(t time.Time) *known {
	return &known{
		state: register.Summary{Floor: 1}, local: func() time.Time { return t },
		held: make(map[string]int64), clocks: []clock{{of: "this machine"}},
	}
}

// TestTarget: the target lies above the time, and 10^10 above any earlier raise
// that something knows of.
func TestTarget(t *testing.T) {
	t.Parallel()
	now := noon.UnixMicro()
	for name, c := range map[string]struct {
		know func(k *known)
		want int64
	}{
		"nothing":                {func(*known) {}, now},
		"a raise of long ago":    {func(k *known) { k.addFloor("x", now-1e12) }, now},
		"a raise a minute ago":   {func(k *known) { k.addFloor("x", now-60e6) }, now - 60e6 + register.Slack},
		"a number of long ago":   {func(k *known) { k.addFloor("x", 1_000_001) }, now},
		"a process's floor":      {func(k *known) { k.addReport(worker.Report{Time: noon, Floor: now - 1}, noon) }, now - 1 + register.Slack},
		"a worker's buffers":     {func(k *known) { k.addReport(reportOf(now+5e6), noon) }, now + 5e6 + register.Slack},
		"a tag begun far above":  {func(k *known) { k.addReport(reportOf(now+20*register.Slack), noon) }, now},
		"the server's clock":     {func(k *known) { k.clocks = append(k.clocks, clock{"server", 9 * time.Second}) }, now + 9e6},
		"a slow server's clock":  {func(k *known) { k.clocks = append(k.clocks, clock{"server", -9 * time.Second}) }, now},
		"an entry from just now": {func(k *known) { k.addTime("x", noon) }, now},
		"a decision of tomorrow": {func(k *known) { k.addTime("x", noon.Add(24*time.Hour)) }, now + 24*3600e6},
		"a backup of next year":  {func(k *known) { k.addTime("x", noon.AddDate(1, 0, 0)) }, noon.AddDate(1, 0, 0).UnixMicro()},
		"and a raise above it": {func(k *known) {
			k.addTime("x", noon.Add(24*time.Hour))
			k.addFloor("x", now+24*3600e6)
		}, now + 24*3600e6 + register.Slack},
	} {
		k := knownAt(noon)
		c.know(k)
		plan, raise, err := (&Raising{}).target(k)
		if err != nil || raise.Target != c.want || plan.Target != c.want {
			t.Errorf("%s: target %d, %v; want %d", name, raise.Target, err, c.want)
		}
	}
}

func reportOf(highest int64) worker.Report {
	r := worker.Report{Time: noon}
	r.Stats.Highest = highest
	return r
}

// TestFuture: a time from the future raises the target, and is shown. Of tags
// above the target nobody knows then how long ago they were last written.
func TestFuture(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, MaxClockDiff: 0, MaxClockDiff + 1: MaxClockDiff + 1, 48 * time.Hour: 48 * time.Hour,
	} {
		k := knownAt(noon)
		k.addTime("the backup", noon.Add(ahead))
		plan, raise, err := (&Raising{}).target(k)
		if err != nil || plan.Future != want || plan.NewestOf != "the backup" || !plan.Clock.Equal(noon) || plan.Time.Before(noon.Add(ahead)) {
			t.Errorf("%v ahead: %+v, %v; want %v", ahead, plan, err, want)
		}
		above := raise.Lift(store.Tag{Name: "above", Next: 1e18}, noon.Add(-time.Minute))
		if certain := above < 1e18+2*register.Slack; certain != (want == 0) {
			t.Errorf("%v ahead: a tag above the target is lifted to %d", ahead, above)
		}
	}
}

// TestNoneLeft: a floor without IDs above it is refused, whoever knows it.
func TestNoneLeft(t *testing.T) {
	t.Parallel()
	for _, floor := range []int64{math.MaxInt64, math.MaxInt64 - register.Slack} {
		k := knownAt(noon)
		k.addFloor("the backup", floor)
		if _, raise, err := (&Raising{}).target(k); !errors.Is(err, ErrNoneLeft) {
			t.Errorf("floor %d: target %d, %v", floor, raise.Target, err)
		}
	}
}

// TestClocks: the time is refused if clocks differ, because one of them can be
// set right.
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, know := range map[string]func(k *known){
		"the server is an hour behind": func(k *known) { k.clocks = append(k.clocks, clock{"server", -time.Hour}) },
		"the server is ahead":          func(k *known) { k.clocks = append(k.clocks, clock{"server", 11 * time.Second}) },
		"a worker is ahead":            func(k *known) { k.addReport(worker.Report{Time: noon.Add(time.Minute)}, noon) },
		"a worker is behind":           func(k *known) { k.addReport(worker.Report{Time: noon.Add(-time.Minute)}, noon) },
	} {
		k := knownAt(noon)
		know(k)
		if _, raise, err := (&Raising{}).target(k); !errors.Is(err, ErrClock) {
			t.Errorf("%s: target %d, %v", name, raise.Target, err)
		}
	}
	k := knownAt(noon)
	k.clocks = append(k.clocks, clock{"server", -time.Hour})
	k.addTime("bucket", noon.Add(time.Hour))
	if _, raise, err := (&Raising{By: 1000}).target(k); err != nil || raise.Target != 1001 || !raise.Now().Equal(noon.Add(time.Hour)) {
		t.Errorf("by a number, which needs no time: %d, decided at %v, %v", raise.Target, raise.Now(), err)
	}
}

// TestServerConfirmsTheTime: after a total loss, the NATS server's clock counts as
// soon as its first bucket shows it. If this machine's clock differs, nothing else
// is made.
func TestServerConfirmsTheTime(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, jetstream.JetStream) error { return nil }
	behind := func() time.Time { return time.Now().Add(-time.Hour) }
	r := Raising{
		Restored: &Restored{Replicas: 1, Taken: behind().Add(-time.Hour), Look: nothing, Prepare: nothing},
		Confirm: func(p Plan) error {
			if !p.Unconfirmed {
				t.Error("the plan counts on a clock that nothing confirms")
			}
			return nil
		},
		Report: func(Change) {}, now: behind,
	}
	if _, err := RaiseAlone(t.Context(), js, messages.DefaultPrefix, source, r); !errors.Is(err, ErrClock) {
		t.Errorf("with a clock an hour behind: %v", err)
	}
	if _, err := js.KeyValue(t.Context(), register.BucketName(messages.DefaultPrefix)); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the register: %v", err)
	}
}

// TestNumberAfterUndoneRaise: a number is refused once anything knows a floor
// above the register's and above that of an unfinished raise.
func TestNumberAfterUndoneRaise(t *testing.T) {
	t.Parallel()
	lift := []Lift{{"invoice.*", 20000}}
	for _, r := range []Raising{{By: 1e9}, {Lifts: lift}} {
		k := knownAt(noon)
		k.state.Floor = 1001
		k.addFloor("the register", 1001)
		if _, _, err := r.target(k); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		k.addFloor("the witness", 5000)
		if _, _, err := r.target(k); !errors.Is(err, ErrUndone) {
			t.Errorf("%+v after a raise that was undone: %v", r, err)
		}
		k.state.Marked = 5000 // by a raise that was interrupted
		if _, _, err := r.target(k); !errors.Is(err, ErrUndone) {
			t.Errorf("%+v, after an interrupted raise: %v", r, err)
		}
	}
	r := Raising{Lifts: append(lift, Lift{"invoice.7", 5}, Lift{"invoice.8", 50000})}
	for tag, want := range map[string]int64{"invoice.1": 20000, "invoice.7": 20000, "invoice.8": 50000, "order": 0} {
		if got := r.by(tag); got != want {
			t.Errorf("%s is lifted by %d, want %d", tag, got, want)
		}
	}
}
