package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

// TestCleanStopHandsOverAtOnce: with two worker IDs, of which one is taken, a successor
// gets the other one at once, and begins where its holder ended, although that was
// ahead of the clock.
func TestCleanStopHandsOverAtOnce(t *testing.T) {
	js := provision(t, natstest.Start(t))
	cfg := config(js)
	cfg.Layout = narrow
	run(t, cfg).waitHeld(t)

	last, worker := int64(-1), int64(-1)
	for range 4 { // each uses 200 ms more than have passed
		r := run(t, cfg)
		began := time.Now()
		s := r.waitHeld(t)
		if took := time.Since(began); took > testTTL/2 {
			t.Errorf("took %v", took)
		}
		ranges, err := s.Generator.NextN(nil, 512*200)
		if err != nil {
			t.Fatal(err)
		}
		if worker >= 0 && s.Worker != worker {
			t.Fatalf("worker ID %d, want %d", s.Worker, worker)
		}
		if first := cfg.Layout.Timestamp(ranges[0].First); first <= last {
			t.Fatalf("begins at %d, the one before ended at %d", first, last)
		}
		worker, last = s.Worker, s.Generator.Last()
		r.stop()
		<-r.done
		if r.err != nil {
			t.Fatal(r.err)
		}
		if _, err := s.Generator.Next(); !errors.Is(err, snowflake.ErrRevoked) {
			t.Fatalf("after the stop: %v", err)
		}
		entry, err := js.KeyValue(t.Context(), ClockBucketName(prefix))
		if err != nil {
			t.Fatal(err)
		}
		found, err := kvBucket{entry}.get(t.Context(), fmt.Sprint(worker))
		if e, decodeErr := decodeClock(found); err != nil || decodeErr != nil || e.Hi != last+1 {
			t.Fatalf("hi is %s, want %d; %v", found.value, last+1, err)
		}
	}
}

// TestAllTaken: that all are taken is reported clearly, and a worker ID that becomes free
// is found soon: at once after a clean stop, and after a crash when its fence is past.
func TestAllTaken(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js := provision(t, net)
	cfg := config(js)
	doomed := cfg
	conn := net.Connect(t)
	var err error
	if doomed.JS, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	var all []*runner
	for i := range 64 {
		if i == 0 {
			all = append(all, run(t, doomed))
		} else {
			all = append(all, run(t, cfg))
		}
	}
	seen := make(map[int64]bool)
	for _, r := range all {
		seen[r.waitHeld(t).Worker] = true
	}
	if len(seen) != 64 {
		t.Fatalf("%d worker IDs are held by 64", len(seen))
	}
	r := run(t, cfg)
	r.waitFor(t, ErrNoWorkerID)
	if text := r.state().Err.Error(); !strings.Contains(text, "of 64, 64 are leased") {
		t.Error(text)
	}

	all[1].stop()
	began := time.Now()
	r.waitHeld(t)
	t.Logf("after a clean stop: %v", time.Since(began))
	if took := time.Since(began); took > testTTL {
		t.Errorf("took %v", took)
	}

	r = run(t, cfg)
	r.waitFor(t, ErrNoWorkerID)
	conn.Close()
	began = time.Now()
	r.waitHeld(t)
	t.Logf("after a crash: %v", time.Since(began))
	if took := time.Since(began); took > fenceLength(testTTL)+testTTL {
		t.Errorf("took %v", took)
	}
}

// TestJetStreamAway: what is reserved is issued, then nothing, and service resumes by
// itself once JetStream is back.
func TestJetStreamAway(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	cfg := config(provision(t, net))
	r := run(t, cfg)
	g := r.waitHeld(t).Generator
	mustNext(t, g)
	net.Stop()
	began := time.Now()
	var refused error
	natstest.Eventually(t, "a refusal", func() bool {
		_, refused = g.Next()
		return refused != nil
	})
	if !errors.Is(refused, snowflake.ErrFenced) && !errors.Is(refused, snowflake.ErrRevoked) {
		t.Fatal(refused)
	}
	served := time.Since(began)
	t.Logf("served for %v, then %v", served, refused)
	if served < fenceLength(testTTL)-testTTL/2 || served > fenceLength(testTTL)+testTTL/4 {
		t.Errorf("served for %v", served)
	}
	r.waitFor(t, ErrLost)
	net.Restart()
	r.waitID(t)
	if r.state().Generator == g {
		t.Fatal("the same generator")
	}
}

// TestStoppedHolder: one that is stopped for longer than its lease, with requests
// waiting, finds its time over when it goes on, and its successor's time is another.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	cfg := config(provision(t, natstest.Start(t)))
	cfg.Layout = narrow
	run(t, cfg).waitHeld(t)

	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	held, resume, done := make(chan State, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx, func(s State) {
			if s.Generator != nil {
				held <- s
				<-resume // no heartbeats meanwhile
			}
		})
	}()
	s := <-held
	successor := run(t, cfg)
	last := mustNext(t, s.Generator)
	natstest.Eventually(t, "a successor", func() bool {
		if id, err := s.Generator.Next(); err == nil {
			last = id
		}
		return successor.held()
	})
	first := successor.waitID(t)
	natstest.Eventually(t, "the time of the stopped one is over", func() bool {
		id, err := s.Generator.Next()
		if err == nil {
			last = id
		}
		return errors.Is(err, snowflake.ErrFenced)
	})
	if cfg.Layout.WorkerID(first) != s.Worker || cfg.Layout.Timestamp(first) <= cfg.Layout.Timestamp(last) {
		t.Errorf("the stopped one issued %d, its successor %d", last, first)
	}
	stop()
	close(resume)
	<-done
	// Its farewell takes nothing away from the successor.
	hi := cfg.Layout.TimeAt(0)
	natstest.Eventually(t, "a heartbeat", func() bool {
		list, _, err := List(t.Context(), cfg.JS, prefix)
		for _, h := range list {
			if err == nil && h.Worker == s.Worker && h.Reserved.After(hi) {
				hi = h.Reserved
			}
		}
		return hi.After(cfg.Layout.Time(first).Add(testTTL))
	})
	for _, s := range successor.all() {
		if errors.Is(s.Err, ErrLost) {
			t.Error(s.Err)
		}
	}
}

// TestServerRestarts: with JetStream back before the time is over nothing is lost, and
// the clock bucket is still the same. The TTL leaves room for a request that is lost in
// the restart, which takes callTimeout to be noticed.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	cfg := config(newJS(t, net))
	cfg.TTL = 3 * testTTL
	if err := Create(t.Context(), cfg.JS, prefix, cfg.TTL, 1); err != nil {
		t.Fatal(err)
	}
	r := run(t, cfg)
	g := r.waitHeld(t).Generator
	hi := reserved(t, cfg)
	net.Stop()
	mustNext(t, g)
	net.Restart()
	natstest.Eventually(t, "more time", func() bool { return reserved(t, cfg).After(hi) })
	if r.state().Generator != g {
		t.Fatal("the worker ID was lost: ", r.all())
	}
	mustNext(t, g)
}

// reserved is up to when the only worker ID's time is given away.
func reserved(t *testing.T, cfg Config) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // it is asked again
	defer cancel()
	list, _, err := List(ctx, cfg.JS, prefix)
	if err != nil || len(list) != 1 {
		t.Logf("%v, %v", list, err)
		return time.Time{}
	}
	return list[0].Reserved
}

// TestClusterLosesItsLeader: three replicas report conflicts differently, and the
// clock bucket must be known again when another server leads it.
func TestClusterLosesItsLeader(t *testing.T) {
	t.Parallel()
	net := natstest.StartCluster(t, 3)
	cfg := config(newJS(t, net))
	cfg.TTL, cfg.Layout = 6*time.Second, narrow
	if err := Create(t.Context(), cfg.JS, prefix, cfg.TTL, 3); err != nil {
		t.Fatal(err)
	}
	a, b := run(t, cfg), run(t, cfg)
	a.waitHeld(t)
	b.waitHeld(t)
	c := run(t, cfg)
	c.waitFor(t, ErrNoWorkerID)

	leader := net.StreamLeader("KV_" + ClockBucketName(prefix))
	leader.Stop()
	leader.Restart()
	net.WaitReady(t)
	a.stop()
	<-a.done
	c.waitID(t)
	for _, r := range []*runner{b, c} {
		for _, s := range r.all() {
			if errors.Is(s.Err, ErrClockLost) {
				t.Error(s.Err)
			}
		}
	}
}

// TestDriftingClockLeaves: of three workers, one whose clock drifts gives up its worker
// ID, and the others do not; it comes back when its clock is right.
func TestDriftingClockLeaves(t *testing.T) {
	t.Parallel()
	js := provision(t, natstest.Start(t))
	var clocks [3]offClock
	var all [3]*runner
	for i := range all {
		cfg := config(js)
		cfg.Clock = clocks[i].now
		all[i] = run(t, cfg)
		all[i].waitHeld(t)
	}
	for _, off := range []time.Duration{6 * time.Second, -6 * time.Second} {
		old := all[1].waitHeld(t).Generator
		clocks[1].set(off)
		natstest.Eventually(t, "ErrClockSkew", func() bool { return errors.Is(all[1].state().Err, ErrClockSkew) })
		if _, err := old.Next(); !errors.Is(err, snowflake.ErrRevoked) {
			t.Errorf("issues on: %v", err)
		}
		text := all[1].state().Err.Error()
		for _, part := range []string{"own time", "the server's", "mean of 2 other workers"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
		clocks[1].set(0)
		all[1].waitID(t)
	}
	for _, i := range []int{0, 2} {
		if n := len(all[i].all()); n != 1 {
			t.Errorf("worker %d changed: %v", i, all[i].all())
		}
	}
}

// TestClockOffAtStart: Open refuses, and names the times.
func TestClockOffAtStart(t *testing.T) {
	js := provision(t, natstest.Start(t))
	for _, off := range []time.Duration{10 * time.Second, -10 * time.Second} {
		clock := &offClock{off: off}
		cfg := config(js)
		cfg.Clock = clock.now
		_, err := Open(t.Context(), cfg)
		if !errors.Is(err, ErrClockSkew) || !strings.Contains(err.Error(), "no other workers") {
			t.Fatal(err)
		}
		r := run(t, config(js))
		r.waitHeld(t)
		_, err = Open(t.Context(), cfg)
		if !errors.Is(err, ErrClockSkew) || !strings.Contains(err.Error(), "mean of 1 other workers") {
			t.Fatal(err)
		}
		r.stop()
		<-r.done
	}
}

// TestForeignLayout: Open refuses and names both layouts, whether the config says so or
// only the leases of others.
func TestForeignLayout(t *testing.T) {
	js := provision(t, natstest.Start(t))
	run(t, config(js)).waitHeld(t)
	cfg := config(js)
	cfg.Layout = snowflake.Default()
	check := func() {
		t.Helper()
		_, err := Open(t.Context(), cfg)
		if !errors.Is(err, ErrForeignLayout) || !strings.Contains(err.Error(), layout64.String()) || !strings.Contains(err.Error(), cfg.Layout.String()) {
			t.Fatal(err)
		}
	}
	check()
	kv, err := js.KeyValue(t.Context(), agreement.BucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), layoutKey); err != nil {
		t.Fatal(err)
	}
	check()
}

// TestClockBucketDeleted: a process that holds a worker ID stops, and none starts over in
// an empty bucket.
func TestClockBucketDeleted(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js := provision(t, net)
	r := run(t, config(js))
	g := r.waitHeld(t).Generator
	if err := js.DeleteKeyValue(t.Context(), ClockBucketName(prefix)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config(js)); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Fatal(err)
	}
	var older *resource.OlderError
	if err := Create(t.Context(), js, prefix, testTTL, 1); !errors.As(err, &older) || older.Bucket != ClockBucketName(prefix) || !older.Missing {
		t.Fatalf("made again: %v", err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: ClockBucketName(prefix)}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config(js)); !errors.Is(err, ErrClockLost) {
		t.Fatal(err)
	}
	r.waitFor(t, ErrClockLost)
	if _, err := g.Next(); !errors.Is(err, snowflake.ErrRevoked) {
		t.Fatal(err)
	}
}

// TestLeaseBucketDeleted: the worker ID is lost, and another is found once there is a
// bucket again, by itself. A restart of the server does not make a bucket a new one.
func TestLeaseBucketDeleted(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js := provision(t, net)
	r := run(t, config(js))
	r.waitHeld(t)
	if err := js.DeleteKeyValue(t.Context(), WorkersBucketName(prefix)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a loss", func() bool { return !r.held() })
	net.Restart()
	provision(t, net)
	r.waitHeld(t)
}

// TestCorruptEntries: they make their own worker ID unusable and no other, and are named
// when there is nothing else.
func TestCorruptEntries(t *testing.T) {
	t.Parallel()
	js := provision(t, natstest.Start(t))
	cfg := config(js)
	cfg.Layout = narrow
	kv, err := js.KeyValue(t.Context(), ClockBucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, value string) {
		t.Helper()
		if _, err := kv.PutString(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, value := range []string{"", "x", "{}", `{"hi":-1,"hold":"x"}`, `{"hi":9223372036854775808,"hold":"x"}`, `{"hold":"x"}`} {
		put("0", value)
		r := run(t, cfg)
		if worker := r.waitHeld(t).Worker; worker != 1 {
			t.Fatalf("%q: worker ID %d", value, worker)
		}
		r.stop()
		<-r.done
	}
	put("99", "no such worker ID")
	put("1", "x")
	r := run(t, cfg)
	r.waitFor(t, ErrCorrupt)
	if err := r.state().Err; !errors.Is(err, ErrNoWorkerID) || !strings.Contains(err.Error(), "key ") {
		t.Fatal(err)
	}
	if list, _, err := List(t.Context(), js, prefix); !errors.Is(err, ErrCorrupt) || len(list) != 2 {
		t.Fatal(list, err)
	}

	// The fence of a holder is overwritten: it stops.
	put("1", `{"hi":0,"hold":"x"}`)
	g := r.waitHeld(t).Generator
	put("1", `{"hi":0,"hold":"x"}`)
	r.waitFor(t, ErrLost)
	if _, err := g.Next(); !errors.Is(err, snowflake.ErrRevoked) {
		t.Fatal(err)
	}
}

// TestLeaseTaken: somebody else's mark in the lease, or none, ends the hold.
func TestLeaseTaken(t *testing.T) {
	t.Parallel()
	js := provision(t, natstest.Start(t))
	kv, err := js.KeyValue(t.Context(), WorkersBucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	for _, rob := range []func(key string) error{
		func(key string) error { return kv.Delete(t.Context(), key) },
		func(key string) error { _, err := kv.PutString(t.Context(), key, "not even JSON"); return err },
		func(key string) error {
			_, err := kv.Put(t.Context(), key, encode(leaseValue{Hold: "x", Layout: layout64.String()}))
			return err
		},
	} {
		r := run(t, config(js))
		s := r.waitHeld(t)
		if err := rob(fmt.Sprint(s.Worker)); err != nil {
			t.Fatal(err)
		}
		r.waitFor(t, ErrLost)
		if _, err := s.Generator.Next(); !errors.Is(err, snowflake.ErrRevoked) {
			t.Fatal(err)
		}
		// The clock of the last robber is in 1970, which nobody gets past.
		if err := kv.Purge(t.Context(), fmt.Sprint(s.Worker)); err != nil {
			t.Fatal(err)
		}
		if again := r.waitHeld(t); again.Generator == s.Generator {
			t.Fatal("the same generator")
		}
		r.stop()
		<-r.done
	}
}

func TestUnsafeBuckets(t *testing.T) {
	for name, damage := range map[string]jetstream.KeyValueConfig{
		"clock in memory":  {Bucket: ClockBucketName(prefix), Storage: jetstream.MemoryStorage},
		"clock with TTL":   {Bucket: ClockBucketName(prefix), TTL: time.Hour},
		"config with TTL":  {Bucket: agreement.BucketName(prefix), TTL: time.Hour},
		"leases without":   {Bucket: WorkersBucketName(prefix)},
		"config in memory": {Bucket: agreement.BucketName(prefix), Storage: jetstream.MemoryStorage},
	} {
		t.Run(name, func(t *testing.T) {
			net := natstest.Start(t)
			js := newJS(t, net)
			if _, err := js.CreateKeyValue(t.Context(), damage); err != nil {
				t.Fatal(err)
			}
			if err := Create(t.Context(), js, prefix, testTTL, 1); !errors.Is(err, ErrUnsafeBucket) {
				t.Errorf("Create: %v", err)
			}
			for _, bucket := range Resources(prefix, testTTL, 1) { // all but the damaged one
				_ = bucket.Ensure(t.Context(), js)
			}
			if _, err := Open(t.Context(), config(js)); !errors.Is(err, ErrUnsafeBucket) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

func TestConfigRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no layout":  {},
		"prefix":     {Layout: layout64, Prefix: "a.b"},
		"datacenter": {Layout: layout64, Datacenter: 1},
		"worker ID":  {Layout: layout64, Worker: new(int64(64))},
		"no worker":  {Layout: layout64, Worker: new(int64(-1))},
		"short TTL":  {Layout: layout64, TTL: time.Millisecond},
		"ahead":      {Layout: layout64, MaxAhead: -1},
	} {
		if _, err := Open(context.Background(), cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestList shows who has what.
func TestList(t *testing.T) {
	net := natstest.Start(t)
	js := provision(t, net)
	if list, layout, err := List(t.Context(), js, prefix); err != nil || len(list) != 0 || !layout.IsZero() {
		t.Fatal(list, layout, err)
	}
	cfg := config(js)
	cfg.Layout, cfg.Datacenter, cfg.Instance = snowflake.Twitter(), 3, "me"
	clock := &offClock{off: 2 * time.Second}
	cfg.Clock = clock.now
	r := run(t, cfg)
	s := r.waitHeld(t)
	if id := mustNext(t, s.Generator); cfg.Layout.Datacenter(id) != 3 || cfg.Layout.WorkerID(id) != s.Worker {
		t.Fatal(id)
	}
	list, layout, err := List(t.Context(), js, prefix)
	if err != nil || len(list) != 1 || layout != cfg.Layout {
		t.Fatal(list, layout, err)
	}
	h := list[0]
	ahead := time.Until(h.Reserved)
	if !h.Held() || h.Datacenter != 3 || h.Worker != s.Worker || h.Instance != "me" ||
		h.ClockDiff < time.Second || h.ClockDiff > 3*time.Second || ahead < fenceLength(testTTL) || ahead > fenceLength(testTTL)+3*testTTL {
		t.Fatalf("%+v", h)
	}
	r.stop()
	<-r.done
	list, _, err = List(t.Context(), js, prefix)
	if err != nil || len(list) != 1 || list[0].Held() || list[0].Reserved.IsZero() {
		t.Fatal(list, err)
	}
}
