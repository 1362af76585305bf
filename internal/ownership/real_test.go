package ownership

import (
	"context"
	"errors"
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = o.Stop(ctx) // its connection may have been closed
	})
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
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

// TestReal: two processes on a real server answer for all slots. After a death the
// other one answers for all, and its lease can be declared to have ended.
func TestReal(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv, 1)
	a, js := joinReal(t, srv, "a", 2*time.Second)
	b, dying := joinReal(t, srv, "b", 2*time.Second)
	for slot := range Slots {
		a.Want(slot)
	}
	natstest.Eventually(t, "both have slots", func() bool {
		return len(answering(b)) > 0 && len(answering(a))+len(answering(b)) == Slots
	})
	dying.Conn().Close() // it does not know, and may answer while its time lasts
	natstest.Eventually(t, "the other answers for all", func() bool { return len(answering(a)) == Slots })
	if n := len(answering(b)); n > 0 {
		t.Errorf("who was cut off answers for %d slots", n)
	}
	dead := func() (l Lease) {
		leases, err := ReadLeases(t.Context(), connect(t, srv), messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, l = range leases {
			if l.Instance == "b" {
				break
			}
		}
		return l
	}
	l := dead()
	if l.Instance != "b" || !l.Lost || l.Gone || l.Heard.IsZero() {
		t.Errorf("lease %+v", l)
	}
	if err := DeclareEnded(t.Context(), js, messages.DefaultPrefix, l); err != nil {
		t.Error(err)
	}
	if l := dead(); l.Instance != "b" || !l.Gone {
		t.Errorf("lease %+v", l)
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
