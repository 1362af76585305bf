package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
)

// TestClusterLosesItsLeader: three replicas report conflicts differently, and
// the clock bucket must be recognized when another server leads it.
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
	// On a busy machine, c may hold the worker ID that a or b has lost.
	natstest.Eventually(t, "one of the three has no worker ID", func() bool {
		return a.reported(ErrNoWorkerID) || b.reported(ErrNoWorkerID) || c.reported(ErrNoWorkerID)
	})

	leader := net.StreamLeader("KV_" + ClockBucketName(prefix))
	leader.Stop()
	leader.Restart()
	net.WaitReady(t)
	a.stop()
	<-a.done
	b.waitID(t)
	c.waitID(t)
	for _, r := range []*runner{b, c} {
		for _, s := range r.all() {
			if errors.Is(s.Err, ErrClockLost) {
				t.Error(s.Err)
			}
		}
	}
}

func TestUnsafeBuckets(t *testing.T) {
	t.Parallel()
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
			// All but the damaged bucket.
			for _, bucket := range Resources(prefix, testTTL, 1) {
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

// TestList lists the holder of each worker ID.
func TestList(t *testing.T) {
	t.Parallel()
	js := newJS(t, natstest.Start(t))
	if err := Create(t.Context(), js, prefix, maxTTL, 1); err != nil {
		t.Fatal(err)
	}
	if list, layout, err := List(t.Context(), js, prefix, kv.ByConsumer); err != nil || len(list) != 0 || !layout.IsZero() {
		t.Fatal(list, layout, err)
	}
	cfg := config(js)
	cfg.Layout, cfg.Datacenter, cfg.Instance = snowflake.Twitter(), 3, "me"
	cfg.Clock, cfg.MaxClockSkew = (&offClock{off: time.Hour}).now, 2*time.Hour
	r := run(t, cfg)
	s := r.waitHeld(t)
	if id := mustNext(t, s.Generator); cfg.Layout.Datacenter(id) != 3 || cfg.Layout.WorkerID(id) != s.Worker {
		t.Fatal(id)
	}
	list, layout, err := List(t.Context(), js, prefix, kv.ByConsumer)
	if err != nil || len(list) != 1 || layout != cfg.Layout {
		t.Fatal(list, layout, err)
	}
	h := list[0]
	if !h.Held() || h.Datacenter != 3 || h.Worker != s.Worker || h.Instance != "me" || h.ClockDiff > time.Hour ||
		h.ClockDiff < time.Hour-natstest.Patience || h.Reserved.Before(h.Since.Add(maxTTL-time.Second)) {
		t.Fatalf("%+v", h)
	}
	r.end()
	list, _, err = List(t.Context(), js, prefix, kv.ByConsumer)
	if err != nil || len(list) != 1 || list[0].Held() || list[0].Reserved.IsZero() {
		t.Fatal(list, err)
	}
}

// TestClockBucketDeleted: a process that holds a worker ID stops, and no process
// starts over in an empty bucket. Once an operator has deleted the key that the
// error names, the present bucket is the installation's, even if its identity
// was deleted by hand.
func TestClockBucketDeleted(t *testing.T) {
	t.Parallel()
	js := provision(t, natstest.Start(t))
	r := run(t, config(js))
	g := r.waitHeld(t).Generator
	if err := js.DeleteKeyValue(t.Context(), ClockBucketName(prefix)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config(js)); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Fatal(err)
	}
	var older *kv.OlderError
	if err := Create(t.Context(), js, prefix, testTTL, 1); !errors.As(err, &older) || older.Bucket != ClockBucketName(prefix) {
		t.Fatalf("made again: %v", err)
	}
	clocks, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: ClockBucketName(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	var lost *ClockLostError
	for range 2 { // the first refusal changes nothing
		_, err := Open(t.Context(), config(js))
		if !errors.As(err, &lost) || lost.Found != "" || lost.Installed == "" {
			t.Fatalf("%+v", err)
		}
		if want := fenceLength(testTTL) + snowflake.DefaultMaxAhead + 2*DefaultMaxClockSkew; lost.Wait != want || lost.Key != ClockIDKey {
			t.Errorf("wait for %v, want %v; key %v", lost.Wait, want, lost.Key)
		}
	}
	r.waitFor(t, ErrClockLost)
	if _, err := g.Next(); !errors.Is(err, snowflake.ErrRevoked) {
		t.Fatal(err)
	}
	r.end()
	settings, err := js.KeyValue(t.Context(), lost.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(settings.Delete(t.Context(), lost.Key), clocks.Delete(t.Context(), identityKey)); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the bucket is the installation's", func() bool { // once the lease has expired
			_, err := Open(t.Context(), config(js))
			return err == nil
		})
	}
	natstest.Eventually(t, "the lease is gone, and the identity is no worker ID", func() bool {
		list, _, err := List(t.Context(), js, prefix, kv.ByConsumer)
		return err == nil && len(list) == 0
	})
}
