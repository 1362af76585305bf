package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// TestCleanStopHandsOverAtOnce: with one of two worker IDs taken, a successor
// gets the other without delay. It begins where its holder ended, although that
// was ahead of the clock.
func TestCleanStopHandsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		runManager(t, w.process("has the other one", 1).manager()).waitHeld(t)
		last, worker := int64(-1), int64(-1)
		for i := range uint64(4) { // each uses some seconds more than have passed
			began := time.Now()
			p := w.process(fmt.Sprint(i), 2+i)
			p.ahead = time.Minute
			r := runManager(t, p.manager())
			s := r.waitHeld(t)
			if took := time.Since(began); took > queryTime+time.Second {
				t.Errorf("took %v", took)
			}
			ranges, err := s.Generator.NextN(nil, 512*5000)
			if err != nil {
				t.Fatal(err)
			}
			if worker >= 0 && s.Worker != worker {
				t.Fatalf("worker ID %d, want %d", s.Worker, worker)
			}
			if first := w.layout.Timestamp(ranges[0].First); first <= last {
				t.Fatalf("begins at %d, the one before ended at %d", first, last)
			}
			worker, last = s.Worker, s.Generator.Last()
			if r.end(); r.err != nil {
				t.Fatal(r.err)
			}
			if _, err := s.Generator.Next(); !errors.Is(err, snowflake.ErrRevoked) {
				t.Fatalf("after the stop: %v", err)
			}
			found, err := w.clocks.read(fmt.Sprint(worker), 0)
			if e, decodeErr := decodeClock(found); err != nil || decodeErr != nil || e.Hi != last+1 {
				t.Fatalf("hi is %s, want %d; %v", found.value, last+1, err)
			}
		}
	})
}

// TestAllTaken: the error shows that all worker IDs are taken. A worker ID that
// becomes free is claimed soon: after a clean stop without delay, after a crash
// when its fence is past.
func TestAllTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(6)
		var processes []*process
		var all []*runner
		for i := range uint64(64) {
			processes = append(processes, w.process(fmt.Sprint(i), i))
			all = append(all, runManager(t, processes[i].manager()))
		}
		seen := make(map[int64]bool)
		for _, r := range all {
			seen[r.waitHeld(t).Worker] = true
		}
		if len(seen) != 64 {
			t.Fatalf("%d worker IDs are held by 64", len(seen))
		}
		late := w.process("one too many", 64)
		before := w.workers.writeCount()
		r := runManager(t, late.manager())
		r.waitFor(t, ErrNoWorkerID)
		calls := 0
		late.net.set(func() { calls = late.net.calls })
		if n := w.workers.writeCount() - before; n > 0 || calls > 15 {
			t.Errorf("%d writes and %d calls to find that all are taken", n, calls)
		}
		if text := r.state().Err.Error(); !strings.Contains(text, "of 64, 64 are leased") {
			t.Error(text)
		}

		all[1].end()
		began := time.Now()
		r.waitHeld(t)
		if took := time.Since(began); took > modelTTL/laterSeeksPerTTL+time.Second {
			t.Errorf("after a clean stop: %v", took)
		}

		r = runManager(t, w.process("the next one", 65).manager())
		r.waitFor(t, ErrNoWorkerID)
		processes[0].net.set(func() { processes[0].net.dead = true })
		began = time.Now()
		r.waitHeld(t)
		if took := time.Since(began); took > fenceLength(modelTTL)+modelTTL/laterSeeksPerTTL+time.Second {
			t.Errorf("after a crash: %v", took)
		}
	})
}

// TestDriftingClockLeaves: of three workers, the one whose clock drifts gives
// up its worker ID, and the others do not. It returns when its clock is right.
func TestDriftingClockLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(6)
		var processes [3]*process
		var all [3]*runner
		for i := range all {
			processes[i] = w.process(fmt.Sprint(i), uint64(i))
			all[i] = runManager(t, processes[i].manager())
			all[i].waitHeld(t)
		}
		for _, off := range []time.Duration{6 * time.Second, -6 * time.Second} {
			old := all[1].waitHeld(t).Generator
			processes[1].setClock(off)
			time.Sleep(modelTTL)
			err := all[1].state().Err
			if !errors.Is(err, ErrClockSkew) {
				t.Fatalf("off by %v: %v", off, err)
			}
			if _, err := old.Next(); !errors.Is(err, snowflake.ErrRevoked) {
				t.Errorf("issues on: %v", err)
			}
			for _, part := range []string{"own time", "the server's", "other workers 2, "} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
			processes[1].setClock(0)
			all[1].waitID(t)
		}
		for _, i := range []int{0, 2} {
			if n := len(all[i].all()); n != 1 {
				t.Errorf("worker %d changed: %v", i, all[i].all())
			}
		}
	})
}

// open makes the checks of Open.
func (p *process) open(t *testing.T, layout snowflake.Layout) error {
	m := p.manager()
	m.cfg.Layout = layout
	_, err := m.admit(t.Context(), m.newClock())
	return err
}

// TestClockOffAtStart: there is no worker ID, and the reason names the times. Open
// succeeds, so that the process serves what needs no worker ID.
func TestClockOffAtStart(t *testing.T) {
	for _, off := range []time.Duration{10 * time.Second, -10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			p := w.process("p", 1)
			p.setClock(off)
			if err := p.open(t, w.layout); !errors.Is(err, ErrClockSkew) || !strings.Contains(err.Error(), "no other workers") {
				t.Fatal(err)
			}
			mustSeek(t, w.process("q", 2).manager())
			if err := p.open(t, w.layout); !errors.Is(err, ErrClockSkew) || !strings.Contains(err.Error(), "other workers 1, ") {
				t.Fatal(err)
			}
			m := p.manager()
			if err := m.tryAdmission(t.Context()); err != nil {
				t.Errorf("Open: %v", err)
			}
			r := runManager(t, m)
			r.waitFor(t, ErrClockSkew)
			p.setClock(0)
			r.waitID(t)
		})
	}
}

// TestDeadPeerOfAnotherTime: the only lease was written while the server's clock
// was set. Its times contradict each other, and it does not expire, because its
// age counts from a time ahead. If its holder is dead, it keeps another process
// from a worker ID for a TTL; if its holder renews it, for as long as it does.
func TestDeadPeerOfAnotherTime(t *testing.T) {
	for _, alive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.workers.set(func() { w.workers.off = 25 * time.Hour })
			old := w.process("old", 1)
			first := runManager(t, old.manager())
			first.waitHeld(t)
			if !alive {
				old.net.set(func() { old.net.dead = true })
				w.workers.set(func() { w.workers.off = 0 })
			}
			second := runManager(t, w.process("new", 2).manager())
			second.waitFor(t, ErrClockSkew)
			time.Sleep(modelTTL + modelTTL/laterSeeksPerTTL + time.Minute)
			if second.held() == alive || len(w.workers.list()) == 0 {
				t.Errorf("the peer lives: %v; the other process has a worker ID: %v, %v", alive, second.held(), second.state().Err)
			}
			if alive {
				first.end()
				second.waitID(t)
			}
		})
	}
}

// TestEpochAfterNow: such a layout does not become the installation's, because no
// ID could be made before its epoch. A few seconds are within what clocks may
// differ by. If it is the installation's all the same, there is no worker ID
// until then, and the reason says so.
func TestEpochAfterNow(t *testing.T) {
	for _, c := range []struct {
		after    time.Duration
		recorded bool
	}{{time.Hour, false}, {time.Hour, true}, {3 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			spec := w.layout.Spec()
			spec.Epoch = time.Now().Add(c.after)
			layout, err := snowflake.NewLayout(spec)
			if err != nil {
				t.Fatal(err)
			}
			w.layout = layout
			if c.recorded {
				w.config.put(bucketEntry{key: LayoutKey, value: []byte(layout.String())})
			}
			m := w.process("p", 1).manager()
			err = m.tryAdmission(t.Context())
			if c.after > m.cfg.MaxClockSkew && !c.recorded {
				var refused *NewEpochError
				if !errors.As(err, &refused) || !errors.Is(err, snowflake.ErrEpoch) || len(w.config.list()) > 0 {
					t.Errorf("%v, recorded: %v", err, w.config.list())
				}
				return
			}
			if err != nil {
				t.Errorf("Open: %v", err)
			}
			r := runManager(t, m)
			r.waitFor(t, snowflake.ErrEpoch)
			time.Sleep(c.after)
			if id := r.waitID(t); layout.Timestamp(id) < 1 {
				t.Errorf("an ID of the time %d", layout.Timestamp(id))
			}
		})
	}
}

// TestForeignLayout: Open refuses and names both layouts, whether the config or
// only the leases of others show the other layout.
func TestForeignLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		mustSeek(t, w.process("p", 1).manager())
		foreign := layoutOf(6)
		for range 2 {
			err := w.process("q", 2).open(t, foreign)
			if !errors.Is(err, ErrForeignLayout) || !strings.Contains(err.Error(), w.layout.String()) || !strings.Contains(err.Error(), foreign.String()) {
				t.Fatal(err)
			}
			w.config.expire(LayoutKey)
		}
	})
}

// TestCorruptEntries: they make their own worker ID unusable and no other, and
// are named when there is nothing else.
func TestCorruptEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		put := func(key, value string) { w.clocks.put(bucketEntry{key: key, value: []byte(value)}) }
		for i, value := range []string{"", "x", "{}", `{"hi":-1,"hold":"x"}`, `{"hi":9223372036854775808,"hold":"x"}`, `{"hold":"x"}`} {
			put("0", value)
			r := runManager(t, w.process("p", uint64(i)).manager())
			if worker := r.waitHeld(t).Worker; worker != 1 {
				t.Fatalf("%q: worker ID %d", value, worker)
			}
			r.end()
		}
		put("99", "no such worker ID")
		put("1", "x")
		r := runManager(t, w.process("p", 9).manager())
		r.waitFor(t, ErrCorrupt)
		if err := r.state().Err; !errors.Is(err, ErrNoWorkerID) || !strings.Contains(err.Error(), "key ") {
			t.Fatal(err)
		}
		if list, err := joinEntries(w.layout, w.workers.list(), w.clocks.list()); !errors.Is(err, ErrCorrupt) || len(list) != 2 {
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
	})
}

// TestStoppedHolder: a holder that is stopped for longer than its fence, with
// waiting requests, finds its time over when it resumes. Its successor's time
// differs, and is left alone. Without heartbeats, only the fence can end it.
func TestStoppedHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		runManager(t, w.process("has the other one", 1).manager()).waitHeld(t)
		h := mustSeek(t, w.process("stopped", 2).manager())
		successor := runManager(t, w.process("successor", 3).manager())
		last := mustNext(t, h.gen)
		for ; !successor.held(); time.Sleep(100 * time.Millisecond) {
			if id, err := h.gen.Next(); err == nil {
				last = id
			}
		}
		if _, err := h.gen.Next(); !errors.Is(err, snowflake.ErrFenced) {
			t.Errorf("the time of the stopped one is not over: %v", err)
		}
		first := successor.waitID(t)
		if w.layout.WorkerID(first) != h.worker || w.layout.Timestamp(first) <= w.layout.Timestamp(last) {
			t.Errorf("the stopped one issued %d, its successor %d", last, first)
		}
		if err := h.renew(t.Context(), time.Now().Add(modelTTL)); !errors.Is(err, ErrLost) {
			t.Errorf("it goes on: %v", err)
		}
		if err := h.release(); !errors.Is(err, ErrLost) {
			t.Errorf("its release: %v", err)
		}
		time.Sleep(3 * modelTTL)
		if n := len(slices.DeleteFunc(successor.all(), func(s State) bool { return s.Generator == nil })); n != 1 || !successor.held() {
			t.Errorf("the successor lost its worker ID: %v", successor.all())
		}
	})
}
