package worker_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// shortLease is the minimal duration of a lease.
const shortLease = time.Second

// narrow is a layout with two worker IDs.
func narrow(t testing.TB) snowflake.Layout {
	t.Helper()
	l, err := snowflake.ParseLayout("50:1ms/w1/s12@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// snowflake requests n snowflake IDs.
func (c client) snowflake(n int64) ([]messages.Range, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.SnowflakeN(ctx, n)
}

// eventuallySnowflake waits until snowflake IDs are served and returns an ID.
func (c client) eventuallySnowflake() (id int64) {
	c.t.Helper()
	natstest.Eventually(c.t, "a snowflake ID", func() bool {
		ranges, err := c.snowflake(1)
		if err == nil {
			id = ranges[0].First
		}
		return err == nil
	})
	return id
}

// holdings are the worker IDs that are leased.
func holdings(t testing.TB, js jetstream.JetStream) []lease.Holding {
	t.Helper()
	all, _, err := lease.List(t.Context(), js, messages.DefaultPrefix, kv.ByConsumer)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(h lease.Holding) bool { return !h.Held() })
}

func TestSnowflakeRequests(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, MaxBatch: 10_000})
	c := newClient(t, net)
	last := c.eventuallySnowflake()
	held := holdings(t, newJetStream(t, net))
	if len(held) != 1 || held[0].Instance != w.Instance() {
		t.Fatalf("worker IDs %+v, want one of %s", held, w.Instance())
	}
	if own := serviceStats(t, c).Installation; held[0].Installation != own {
		t.Errorf("the lease is of installation %q, want %q", held[0].Installation, own)
	}
	layout := snowflake.Default()
	// The client checks that they are n, ascending.
	for _, n := range []int64{1, 2, 4096, 10_000} {
		began := time.Now()
		var ranges []messages.Range
		natstest.Eventually(t, "IDs", func() (ok bool) {
			var err error
			if ranges, err = c.snowflake(n); err != nil && !isPassing(err) {
				t.Fatalf("%d IDs: %v", n, err)
			}
			return err == nil
		})
		if ranges[0].First <= last {
			t.Errorf("%d after %d", ranges[0].First, last)
		}
		for id := range messages.IDs(ranges) {
			if layout.WorkerID(snowflake.ID(id)) != held[0].Worker {
				t.Fatalf("%d has worker ID %d, the worker %d", id, layout.WorkerID(snowflake.ID(id)), held[0].Worker)
			}
			last = id
		}
		// More than clocks may differ, and than 10,000 IDs take.
		const off = 5 * time.Second
		if at := layout.Time(snowflake.ID(last)); at.Before(began.Add(-off)) || at.After(time.Now().Add(off)) {
			t.Errorf("%d says it is of %v, and was asked for at %v", last, at, began)
		}
	}
}

// TestSnowflakeStopReleases: the worker ID of a worker that has stopped is
// free.
func TestSnowflakeStopReleases(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, Lease: lease.Config{TTL: time.Hour}})
	c := newClient(t, net)
	id := snowflake.ID(c.eventuallySnowflake())
	stop(t, w)
	js := newJetStream(t, net)
	all, layout, err := lease.List(t.Context(), js, messages.DefaultPrefix, kv.ByConsumer)
	if err != nil || len(all) != 1 || all[0].Held() {
		t.Fatalf("worker IDs %+v, %v, want one that is free", all, err)
	}
	// The unused time is released, but not the ID's own time.
	if past := all[0].Reserved.Sub(layout.Time(id)); past <= 0 || past > 30*time.Minute {
		t.Errorf("reserved up to %v after the last ID", past)
	}
	if _, err := c.snowflake(1); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("after Stop: %v, want no responders", err)
	}
}

// TestStartsWithoutSnowflakes: a process whose clock is off, or before the epoch of
// its installation, starts and serves tags. It reports why it has no worker ID, and
// requests for snowflake IDs are refused as unavailable. It begins to serve them
// once its clock is right.
func TestStartsWithoutSnowflakes(t *testing.T) {
	t.Parallel()
	for reason, off := range map[error]time.Duration{
		lease.ErrClockSkew: -time.Hour, snowflake.ErrEpoch: 0,
	} {
		net := worker.NewAccount(t)
		s := newStore(t, net, 1)
		createTags(t, s, 1000, "order")
		layout := snowflake.Default()
		if errors.Is(reason, snowflake.ErrEpoch) { // of an installation that began while its clocks were wrong
			spec := layout.Spec()
			spec.Epoch = time.Now().Add(time.Hour).Truncate(time.Second)
			var err error
			if layout, err = snowflake.NewLayout(spec); err != nil {
				t.Fatal(err)
			}
			config, err := agreement.Open(t.Context(), newJetStream(t, net), messages.DefaultPrefix)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Agree(t.Context(), lease.LayoutKey, layout.String()); err != nil {
				t.Fatal(err)
			}
		}
		var ahead atomic.Int64
		ahead.Store(int64(off))
		w := startWorker(t, net, worker.Config{Store: s, StoreName: "test", Lease: lease.Config{
			Layout: layout, Clock: func() int64 { return time.Now().UnixNano() + ahead.Load() },
		}})
		c := newClient(t, net)
		c.must("order")
		natstest.Eventually(t, reason.Error(), func() bool { return strings.Contains(w.Report(0).Stats.NoWorker, reason.Error()) })
		direct, err := w.Direct()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := direct.Snowflake(t.Context(), nil, ""); !errors.Is(err, messages.ErrUnavailable) {
			t.Errorf("%v: %v, want %v", reason, err, messages.ErrUnavailable)
		}
		if off != 0 {
			ahead.Store(0)
			c.eventuallySnowflake()
		}
	}
}

// TestSnowflakeNoneFree: a worker that finds all worker IDs taken serves
// segments, and serves snowflake IDs as soon as a worker ID is free.
func TestSnowflakeNoneFree(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	js := newJetStream(t, net)
	cfg := worker.Config{Role: worker.RoleWorker, Lease: lease.Config{Layout: narrow(t), TTL: time.Minute}}
	first, second := startWorker(t, net, cfg), startWorker(t, net, cfg)
	natstest.Eventually(t, "both worker IDs are held", func() bool { return len(holdings(t, js)) == 2 })
	cfg.Role, cfg.Store = worker.RoleAll, s
	third := startWorker(t, net, cfg)
	createTags(t, s, 100_000, "order")
	c := newClient(t, net)
	c.must("order")
	ids := make(map[int64]bool)
	mustGetNew := func() {
		t.Helper()
		if id := c.eventuallySnowflake(); ids[id] {
			t.Fatalf("DUPLICATE: %d", id)
		} else {
			ids[id] = true
		}
	}
	for range 10 {
		mustGetNew()
	}
	if held := holdings(t, js); len(held) != 2 || slices.ContainsFunc(held, func(h lease.Holding) bool { return h.Instance == third.Instance() }) {
		t.Fatalf("held: %+v", held)
	}
	for _, w := range []*worker.Process{first, second} {
		stop(t, w)
	}
	mustGetNew()
	if held := holdings(t, js); len(held) != 1 || held[0].Instance != third.Instance() {
		t.Errorf("held: %+v, want by %s", held, third.Instance())
	}
	c.must("order")
}

// TestSnowflakeLeaseLostUnderLoad deletes the lease while thousands of requests
// wait in the process. Some of them are still being answered when it has the
// next worker ID.
func TestSnowflakeLeaseLostUnderLoad(t *testing.T) {
	t.Parallel()
	// With the sequence in front, each ID is a separate range, so that replies
	// are long and requests queue up.
	layout, err := snowflake.ParseLayout("38:1ms/s17/w8@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	net := worker.NewAccount(t)
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, Log: zap.NewNop(), Lease: lease.Config{Layout: layout, TTL: shortLease}})
	c := newClient(t, net)
	c.eventuallySnowflake()
	js := newJetStream(t, net)
	kv, err := js.KeyValue(t.Context(), lease.WorkersBucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}

	const shots, batch = 1_000, 500
	var answers atomic.Int64
	// Owned by the subscription's goroutine, until all have arrived.
	var ranges []messages.Range
	refused := 0
	inbox := c.conn.NewInbox()
	sub, err := c.conn.Subscribe(inbox, func(msg *nats.Msg) {
		switch got, err := messages.DecodeReply(msg, batch); {
		case err == nil:
			ranges = append(ranges, got...)
		case errors.Is(err, messages.ErrReply):
			t.Errorf("garbled: %v", err)
		default:
			refused++
		}
		answers.Add(1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	sent := int64(0)
	ask := func(n int) {
		for range n {
			if err := c.conn.PublishRequest(messages.DefaultPrefix.Snowflake(), inbox, messages.EncodeCount(batch)); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	rounds := 0
	natstest.Eventually(t, "IDs, and requests refused between two leases", func() bool {
		rounds++
		c.eventuallySnowflake()
		for _, h := range holdings(t, js) {
			if err := kv.Delete(t.Context(), strconv.FormatInt(h.Worker, 10)); err != nil {
				t.Fatal(err)
			}
		}
		ask(shots)
		// Some must arrive between the two leases, however fast the others are
		// answered. The worker may keep its lease: if it was busy for the TTL,
		// it recreates it.
		for range 100 {
			if sent-answers.Load() < shots {
				ask(1)
			}
			time.Sleep(5 * time.Millisecond)
		}
		natstest.Eventually(t, "all requests are answered", func() bool { return answers.Load() == sent })
		return rounds >= 2 && len(ranges) > 0 && (refused > 0 || rounds >= 20)
	})

	slices.SortFunc(ranges, func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].First <= ranges[i-1].Last {
			t.Fatalf("DUPLICATE: %v and %v", ranges[i-1], ranges[i])
		}
	}
	t.Logf("%d rounds, %d ranges, %d requests refused", rounds, len(ranges), refused)
}
