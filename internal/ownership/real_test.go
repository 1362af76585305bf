package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// network is where a test's connections come from: one server, or a cluster.
type network interface {
	Connect(t testing.TB, opts ...nats.Option) *nats.Conn
}

func connect(t testing.TB, net network) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(net.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// provision makes the buckets.
func provision(t testing.TB, net network, replicas int) {
	t.Helper()
	p := messages.DefaultPrefix
	err := resource.Ensure(t.Context(), connect(t, net), agreement.Bucket(p, replicas), Bucket(p, replicas))
	if err != nil {
		t.Fatal(err)
	}
}

// joinReal starts a process that takes part, and stops with the test.
func joinReal(t testing.TB, net network, name string, term time.Duration) (*Ownership, jetstream.JetStream) {
	t.Helper()
	js := connect(t, net)
	o, err := Open(t.Context(), Config{JS: js, Prefix: messages.DefaultPrefix, Instance: name, LeaseTime: term, Log: zaptest.NewLogger(t).Named(name)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = o.Stop(ctx) // its connection may have been closed
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := o.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return o, js
}

// answering are the slots that a process may answer for.
func answering(o *Ownership) (slots []int) {
	for slot := range Slots {
		if epoch, ok := o.Term(slot); ok && o.Valid(slot, epoch) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// even reports whether some processes have all slots, each as many as the others or two more or less.
func even(all ...*Ownership) bool {
	n := 0
	for _, o := range all {
		has := len(answering(o))
		if n += has; has < Slots/len(all)-2 || has > Slots/len(all)+2 {
			return false
		}
	}
	return n == Slots
}

// answered counts the slots that some processes answer for.
func answered(all ...*Ownership) (n int) {
	for _, o := range all {
		n += len(answering(o))
	}
	return n
}

// startFour has processes join until there are four, on which the slots are evenly spread.
func startFour(t *testing.T, net network) (all []*Ownership, conns []jetstream.JetStream) {
	t.Helper()
	for n := range 4 {
		o, js := joinReal(t, net, fmt.Sprintf("p%d", n), DefaultLeaseTime)
		all, conns = append(all, o), append(conns, js)
		for slot := range Slots {
			o.Want(slot)
		}
		began := time.Now()
		natstest.Eventually(t, "even shares after a join", func() bool { return even(all...) })
		t.Logf("%d processes: even after %v", len(all), time.Since(began).Round(time.Millisecond))
	}
	return all, conns
}

// watchBoth fails the test if two processes answer for a slot at a time, until it is stopped.
func watchBoth(t *testing.T, all ...*Ownership) (stop func()) {
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stopped.Load() {
			for slot := range Slots {
				var terms []uint64
				for _, o := range all {
					epoch, _ := o.Term(slot)
					terms = append(terms, epoch)
				}
				valid := 0
				for i, o := range slices.Backward(all) { // looked at in the other direction
					if terms[i] != 0 && o.Valid(slot, terms[i]) {
						valid++
					}
				}
				if highest := slices.Max(terms); valid > 1 && bothStill(all, terms, slot) {
					t.Errorf("%d processes answer for slot %d, up to epoch %d", valid, slot, highest)
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() { stopped.Store(true); <-done }
}

// bothStill looks again: if the first of two is still valid after the second one was, both were at
// one time.
func bothStill(all []*Ownership, terms []uint64, slot int) bool {
	n := 0
	for i, o := range all {
		if terms[i] != 0 && o.Valid(slot, terms[i]) {
			n++
		}
	}
	return n > 1
}

// TestRealBalance: 256 slots over 4 processes on a real server are 64 each within two lease times of a join.
// After a clean stop the others answer for all within 250 ms, and after a death within T and a second.
func TestRealBalance(t *testing.T) {
	t.Parallel() // they wait most of the time
	srv := natstest.Start(t)
	provision(t, srv, 1)
	all, conns := startFour(t, srv)
	stop := watchBoth(t, all...)
	defer stop()

	began := time.Now()
	go func() { _ = all[0].Stop(context.Background()) }()
	natstest.Eventually(t, "the others answer for all", func() bool { return answered(all[1:]...) == Slots })
	t.Logf("after a clean stop, the others answer for all after %v", time.Since(began).Round(time.Millisecond))
	natstest.Eventually(t, "even shares", func() bool { return even(all[1:]...) })

	began = time.Now()
	conns[1].Conn().Close() // as if it had been killed; it does not know, and may answer while its time lasts
	natstest.Eventually(t, "the others answer for all", func() bool { return answered(all[2:]...) == Slots })
	t.Logf("after a death, the others answer for all after %v", time.Since(began).Round(time.Millisecond))
	if n := len(answering(all[1])); n > 0 {
		t.Errorf("who was cut off answers for %d slots", n)
	}
	leases, err := ReadLeases(t.Context(), connect(t, srv), messages.DefaultPrefix)
	if err != nil || len(leases) != 3 {
		t.Fatalf("leases %+v, %v", leases, err)
	}
	for _, l := range leases {
		if l.Lost != (l.Instance == "p1") || l.Gone || time.Since(l.Heard).Abs() > time.Minute {
			t.Errorf("lease %+v", l)
		}
		if err := DeclareEnded(t.Context(), conns[0], messages.DefaultPrefix, l); l.Lost != (err == nil) {
			t.Errorf("lease %+v is said to be of a process that has ended: %v", l, err)
		}
	}
	leases, err = ReadLeases(t.Context(), connect(t, srv), messages.DefaultPrefix)
	for _, l := range leases {
		if err != nil || l.Gone != (l.Instance == "p1") {
			t.Errorf("lease %+v, %v", l, err)
		}
	}
}

// TestRealWritesAtRest: three writes a lease time for each process, whatever the number of slots.
func TestRealWritesAtRest(t *testing.T) {
	t.Parallel() // they wait most of the time
	srv := natstest.Start(t)
	provision(t, srv, 1)
	const second = time.Second
	a, js := joinReal(t, srv, "a", second)
	b, _ := joinReal(t, srv, "b", second)
	for slot := range Slots {
		a.Want(slot)
	}
	last := func() uint64 {
		s, err := js.Stream(t.Context(), resource.BucketStream(BucketName(messages.DefaultPrefix)))
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.LastSeq
	}
	natstest.Eventually(t, "even shares", func() bool { return len(answering(a)) == Slots/2 && len(answering(b)) == Slots/2 })
	before := last()
	time.Sleep(second)
	n := last() - before
	t.Logf("two processes with %d slots write %d times in a lease time", Slots, n)
	if n > 2*4+1 {
		t.Errorf("%d writes", n)
	}
}

// TestRealCluster: on three servers, when the leader of the bucket stops, leases are renewed by the next
// one, terms go on or are taken over, and never do two processes answer at a time.
func TestRealCluster(t *testing.T) {
	t.Parallel() // they wait most of the time
	c := natstest.StartCluster(t, 3)
	provision(t, c, 3)
	var all []*Ownership
	for n := range 3 {
		o, _ := joinReal(t, c, fmt.Sprintf("p%d", n), DefaultLeaseTime)
		all = append(all, o)
	}
	for slot := range Slots {
		all[slot%3].Want(slot)
	}
	natstest.Eventually(t, "even shares", func() bool { return even(all...) })
	stop := watchBoth(t, all...)
	defer stop()
	for round := range 2 {
		leader := c.StreamLeader(resource.BucketStream(BucketName(messages.DefaultPrefix)))
		if leader == nil {
			t.Fatal("no leader")
		}
		leader.Stop()
		began := time.Now()
		stopped := all[0].now()
		natstest.Eventually(t, "all leases are renewed, and all slots answered for", func() bool {
			for _, o := range all {
				if o.terms.until.Load()-int64(o.validFor) < stopped {
					return false
				}
			}
			return even(all...)
		})
		t.Logf("round %d: after the leader was stopped, leases are renewed after %v", round, time.Since(began).Round(time.Millisecond))
		leader.Restart()
		c.WaitReady(t)
		natstest.Eventually(t, "even shares", func() bool { return even(all...) })
	}
}

// TestRealForgetful: a bucket that may forget is refused, and so is one that is missing.
func TestRealForgetful(t *testing.T) {
	srv := natstest.Start(t)
	js := connect(t, srv)
	cfg := Config{JS: js, Prefix: messages.DefaultPrefix, Instance: "p"}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("without a bucket: %v", err)
	}
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: BucketName(cfg.Prefix), TTL: time.Hour, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, durability.ErrUnsafe) {
		t.Errorf("with a bucket whose entries expire: %v", err)
	}
}

// TestRealStartStop: whatever is cut off at a start, and however often, nothing is left.
func TestRealStartStop(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv, 1)
	js := connect(t, srv)
	for n := range 30 {
		o, err := Open(t.Context(), Config{JS: js, Prefix: messages.DefaultPrefix, Instance: fmt.Sprint(n)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond/4)
		_ = o.Start(ctx) // is cut off, now and then
		cancel()
		for slot := range 10 {
			o.Want(slot)
		}
		if err := o.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if len(answering(o)) > 0 {
			t.Error("it answers after Stop")
		}
	}
}

// TestValidCosts: a look takes no memory.
func TestValidCosts(t *testing.T) {
	o := newOwnership(Config{}, nil, systemClock())
	o.terms.open(leaseID{0, 1}, unknown)
	o.terms.begin(leaseID{0, 1}, 7, 1)
	if !o.Valid(7, 1) || o.Valid(7, 2) || o.Valid(8, 0) {
		t.Error("another epoch is valid, or this one is not")
	}
	n := testing.AllocsPerRun(1000, func() {
		if epoch, ok := o.Term(7); !ok || !o.Valid(7, epoch) {
			t.Error("not valid")
		}
		o.Owner(7)
		o.Want(7)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkValid(b *testing.B) {
	o := newOwnership(Config{}, nil, systemClock())
	o.terms.open(leaseID{0, 1}, unknown)
	o.terms.begin(leaseID{0, 1}, 7, 1)
	b.ReportAllocs()
	for b.Loop() {
		if !o.Valid(7, 1) {
			b.Fatal("not valid")
		}
	}
}
