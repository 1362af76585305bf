package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestRestoreUnderRunningProcesses: leases and clocks regress together to a
// random moment, while three processes issue IDs far ahead of their clocks.
// Then another process starts, or any of the three dies. No ID is issued twice,
// and all that live get worker IDs again.
func TestRestoreUnderRunningProcesses(t *testing.T) {
	t.Parallel()
	first := firstSeed(t)
	for seed := first; seed < first+tier.Seeds(60, 1000) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { restoreOnce(t, seed) })
		if t.Failed() {
			t.Logf("IDWORKER_SEED=%d", seed)
		}
	}
}

func restoreOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 10))
	some := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	w := newWorld()
	spec := narrow.Spec()
	spec.Time, spec.Worker = spec.Time-1, spec.Worker+1 // four worker IDs
	w.layout, _ = snowflake.NewLayout(spec)
	var all []*process
	begin := func() {
		p := w.process(fmt.Sprint(len(all)), rng.Uint64())
		p.ahead = 10 * time.Second
		all = append(all, p)
		t.Cleanup(p.start(t.Context()))
	}
	issue := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			for _, p := range all {
				p.issue(rng, 1+rng.Int64N(2_000_000)) // up to 4 s of the clock
			}
		}
	}
	for range 3 {
		begin()
		time.Sleep(some(2 * time.Second))
	}
	issue(some(time.Minute))
	leases, clocks := w.workers.rewind(), w.clocks.rewind()
	age := some(time.Minute)
	issue(age)
	if rng.IntN(2) == 0 { // they go on with other worker IDs
		for worker := range 4 {
			w.workers.expire(fmt.Sprint(worker))
		}
		issue(some(time.Minute))
	}
	leases()
	clocks()
	if seed%3 == 0 {
		all[0].net.set(func() { all[0].net.dead = true })
		all = all[1:]
	} else {
		time.Sleep(some(2 * time.Second))
		begin()
	}
	issue(3 * time.Minute)
	for _, p := range all {
		if p.holding() == nil {
			t.Errorf("process %s has no worker ID again: %v", p.name, p.w.wrong)
		}
	}
	for _, problem := range w.overlaps() {
		t.Errorf("restored to the state of %v before: %s", age, problem)
	}
}

// TestJumpOfTheClock: the system's clock has gone ahead, as when the machine
// was resumed from a snapshot. There are no more IDs until a heartbeat has
// succeeded, which begins at once.
func TestJumpOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld().process("p", 1)
		m := p.manager()
		r := runManager(t, m)
		g := r.waitHeld(t).Generator
		p.net.set(func() { p.net.dead = true })
		m.current.Load().clock.jumped()
		for range 100 {
			if id, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
				t.Fatalf("%d, %v", id, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		p.net.set(func() { p.net.dead = false })
		began := time.Now()
		r.waitID(t)
		if took := time.Since(began); took > modelTTL/beatsPerTTL || r.state().Generator != g {
			t.Errorf("after %v, the same hold: %v", took, r.state().Generator == g)
		}
		m.current.Load().clock.jumped()
		began = time.Now()
		if r.waitID(t); time.Since(began) > time.Second {
			t.Errorf("the heartbeat took %v", time.Since(began))
		}
	})
}

// TestOlderWritesEndNoSuspension: the answer to a write of before the jump, and
// an older value that is read instead of an answer, give no time back. Either
// may be of before a snapshot.
func TestOlderWritesEndNoSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld().process("p", 1)
		m := p.manager()
		r := runManager(t, m)
		g := r.waitHeld(t).Generator
		h := m.current.Load()
		points := 0
		p.net.set(func() {
			p.net.point = func() {
				// hi was written, and the answer is in flight.
				if points++; points == 6 {
					h.suspend()
					p.net.set(func() { p.net.dead = true })
				}
			}
		})
		time.Sleep(modelTTL/beatsPerTTL + time.Second)
		if id, err := g.Next(); points < 6 || !errors.Is(err, snowflake.ErrFenced) {
			t.Errorf("%d, %v, after %d points", id, err, points)
		}
		p.net.set(func() { p.net.dead = false })
		r.waitID(t)
	})
	synctest.Test(t, func(t *testing.T) {
		h, _, clocks := faultyHold(t, newWorld().process("p", 1))
		h.suspend()
		clocks.writes = notMade
		err := heartbeat(t, h)
		if id, later := h.gen.Next(); !errors.Is(err, errOlder) || !errors.Is(later, snowflake.ErrFenced) {
			t.Errorf("%d, %v, after %v", id, later, err)
		}
	})
}

// TestHeartbeatAfterAReconnect: it begins immediately, and a single heartbeat
// covers all earlier reconnects.
func TestHeartbeatAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.process("p", 1)
		p.others.back = make(chan nats.Status, 10)
		for range cap(p.others.back) {
			p.others.back <- nats.CONNECTED
		}
		runManager(t, p.manager())
		time.Sleep(modelTTL / 10)
		// The identity, the claim, and a heartbeat.
		if got := w.clocks.writeCount(); got != 3 {
			t.Errorf("%d writes", got)
		}
		before := w.clocks.writeCount()
		p.others.back <- nats.CONNECTED
		time.Sleep(time.Second)
		if got := w.clocks.writeCount(); got != before+1 {
			t.Errorf("%d heartbeats", got-before)
		}
	})
}

// TestTheSameRevisionsAgain: all buckets regressed to before a process's claim,
// while that process was cut off. Another process has claimed the worker ID,
// and its entries have the same revisions. The first process detects it all the
// same.
func TestTheSameRevisionsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p, q := w.process("p", 1), w.process("q", 2)
		p.given, q.given = new(int64(1)), new(int64(1))
		m := p.manager()
		// Makes the identity.
		if _, err := m.admit(t.Context(), m.newClock()); err != nil {
			t.Fatal(err)
		}
		leases, clocks := w.workers.rewind(), w.clocks.rewind()
		first := runManager(t, m)
		old := first.waitHeld(t).Generator
		p.net.set(func() { p.net.dead = true })
		leases()
		clocks()
		second := runManager(t, q.manager())
		second.waitHeld(t)
		p.net.set(func() { p.net.dead = false })
		p.others.back <- nats.CONNECTED
		time.Sleep(time.Second)
		if id, err := old.Next(); !errors.Is(err, snowflake.ErrRevoked) {
			t.Errorf("the first one goes on: %d, %v", id, err)
		}
		time.Sleep(modelTTL)
		if got := second.all(); len(got) != 1 {
			t.Errorf("the second one does not: %v", got)
		}
	})
}

// insistent are other processes that are queried until one of them answers: on
// a busy machine, an answer may come later than a query waits for it.
type insistent struct{ others }

func (i insistent) query(ctx context.Context, key, hold string) (end int64, err error) {
	for began := time.Now(); end == 0 && err == nil && time.Since(began) < natstest.Patience; {
		end, err = i.others.query(ctx, key, hold)
	}
	return end, err
}

// TestAskedOnAServer: both buckets regress to before a process's claim. Another
// process with the same configured worker ID does not get it while the first
// holds it, and does once that has stopped.
func TestAskedOnAServer(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	cfg := config(newJS(t, net))
	// The first holder detects the loss by its next heartbeat, after a third of
	// the TTL: a busy machine has asked by then. A claim that cannot be given back
	// in time expires while the test still waits.
	cfg.TTL, cfg.Worker = natstest.Patience/2, new(int64(7))
	if err := Create(t.Context(), cfg.JS, prefix, cfg.TTL, 1); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, cfg) // so that the identity is there
	conn := net.Connect(t)
	leases := natstest.TakeSnapshot(t, conn, kv.StreamName(WorkersBucketName(prefix)))
	clocks := natstest.TakeSnapshot(t, conn, kv.StreamName(ClockBucketName(prefix)))
	first := run(t, cfg)
	id := first.waitID(t)
	leases.Restore(t, conn)
	clocks.Restore(t, conn)
	cfg.JS = newJS(t, net)
	second := mustOpen(t, cfg)
	if stop, err := second.others.serve(&second.uses); err != nil {
		t.Fatal(err)
	} else {
		t.Cleanup(stop)
	}
	asked := second.others
	second.others = insistent{asked}
	if h, err := second.seekOnce(t.Context()); !errors.Is(err, ErrLost) || first.state().Generator == nil {
		t.Fatalf("while another one holds it: %v, %v", h, err)
	}
	first.end()
	second.others = asked
	var h *holder
	natstest.Eventually(t, "the worker ID", func() (got bool) {
		var err error
		h, err = second.seek(t.Context())
		return err == nil
	})
	if later := mustNext(t, h.gen); later <= id {
		t.Errorf("%d after %d", later, id)
	}
}

// TestNoEcho: a connection on which no claim would ever succeed is refused.
func TestNoEcho(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	provision(t, net)
	js, err := jetstream.New(net.Connect(t, nats.NoEcho()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config(js)); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}
