package register

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
)

// site is a register on a server.
type site struct {
	*testing.T
	srv  *natstest.Node
	js   jetstream.JetStream
	conn *nats.Conn
}

func newSite(t *testing.T) site {
	srv := natstest.Start(t)
	conn := srv.Connect(t)
	return site{t, srv, natstest.JetStream(t, conn), conn}
}

// loader opens a handle that watches the register, as a loader does.
func (s site) loader(cfg Config) *Register {
	s.Helper()
	h := handle(s, cfg)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx, nil)
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
	return h
}

func (s site) create(h *Register, tag string) {
	s.Helper()
	if err := h.CreateTag(s.Context(), store.Tag{Name: tag, Step: 10, Next: 1}); err != nil {
		s.Fatal(err)
	}
}

// reserve reserves 10 IDs, which must not begin below first.
func (s site) reserve(h *Register, tag string, first int64) store.Segment {
	s.Helper()
	var seg storetest.Part
	var err error
	natstest.Eventually(s.T, "a write that is confirmed in time", func() bool { // a busy machine
		seg, err = storetest.Reserve(s.Context(), h, tag, 10)
		return !errors.Is(err, guard.ErrLate)
	})
	if err != nil || seg.First < first {
		s.Fatalf("%s: %v, %v; want IDs from %d on", tag, seg, err, first)
	}
	return seg.Segment
}

// raise raises all tags, as an administrator does.
func (s site) raise(by int64) {
	s.Helper()
	admin := s.admin()
	if _, err := raiseAll(s.Context(), admin, raiseBy(s, admin, by), alone, func(Effect) {}); err != nil {
		s.Fatal(err)
	}
}

// createOld creates the bucket as a restore by hand may. Its server allows purges.
func (s site) createOld() {
	s.Helper()
	_, err := s.js.CreateKeyValue(s.Context(), jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Storage: jetstream.FileStorage, Metadata: map[string]string{metaID: "made"},
	})
	if err != nil {
		s.Fatal(err)
	}
}

// raiseBy raises all tags by a number.
func raiseBy(t testing.TB, admin *Register, n int64) Raise {
	t.Helper()
	found, err := admin.remote.poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return Raise{Target: store.Beyond(found.First, n), By: n}
}

func (s site) delete() {
	s.Helper()
	if err := s.js.DeleteKeyValue(s.Context(), BucketName(prefix)); err != nil {
		s.Fatal(err)
	}
}

// makeAgain creates a bucket unrelated to the earlier bucket.
func (s site) makeAgain() {
	s.Helper()
	natstest.Eventually(s, "the bucket is made again", func() bool {
		return kv.Ensure(s.Context(), s.js, bucket(prefix, 1, 0, map[string]string{metaID: "by hand"})) == nil
	})
}

func (s site) awaitStop(h *Register) {
	s.Helper()
	natstest.Eventually(s, "the loader stops", func() bool { return h.Stopped() != nil })
	for range 3 {
		if seg, err := storetest.Reserve(s.Context(), h, "order", 10); !errors.Is(err, store.ErrRegressed) {
			s.Fatalf("a loader that has stopped: %v, %v", seg, err)
		}
	}
}

func (s site) awaitStart(h *Register) {
	s.Helper()
	natstest.Eventually(s, "the loader goes on", func() bool { return h.Stopped() == nil })
}

// TestRegressions: loaders stop on every kind of regression, and resume above
// all grants once an administrator has raised all tags.
func TestRegressions(t *testing.T) {
	t.Parallel()
	stream := kv.StreamName(BucketName(prefix))
	for name, c := range map[string]struct {
		do func(s site, older natstest.Snapshot)
		// Lower bound of the first ID of a tag that the register lost.
		late int64
	}{
		"deleted":              {func(s site, _ natstest.Snapshot) { s.delete() }, 1_000_001},
		"deleted, made again":  {func(s site, _ natstest.Snapshot) { s.delete(); s.makeAgain() }, 1_000_001},
		"put back":             {func(s site, older natstest.Snapshot) { older.Restore(s, s.conn) }, 1_000_001},
		"an entry purged":      {func(s site, _ natstest.Snapshot) { s.purge("idle") }, 0},
		"an entry set lower":   {func(s site, _ natstest.Snapshot) { s.put("order", `{"next":5,"step":10}`) }, 0},
		"everything is purged": {func(s site, _ natstest.Snapshot) { s.purge("") }, 1_000_001},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if strings.HasSuffix(name, "purged") {
				s.createOld()
			}
			one, two := s.loader(connect(t, s.srv)), s.loader(connect(t, s.srv))
			s.create(one, "order")
			s.create(one, "idle")
			s.reserve(one, "order", 1)
			older := natstest.TakeSnapshot(t, s.conn, stream)
			s.create(two, "late")
			s.reserve(one, "late", 1)
			for range 10 {
				s.reserve(one, "order", 1)
				s.reserve(two, "order", 1)
			}
			natstest.Eventually(t, "both have polled", func() bool { return one.counted() && two.counted() })
			c.do(s, older)
			for _, h := range []*Register{one, two} {
				if name == "an entry set lower" {
					_, _ = storetest.Reserve(t.Context(), h, "order", 10) // this reads it
				}
				s.awaitStop(h)
				if n := h.Figures().Regressions; n != 1 {
					t.Errorf("%d regressions, want 1", n)
				}
			}
			s.raise(1_000_000)
			for _, h := range []*Register{one, two} {
				s.awaitStart(h)
			}
			for _, h := range []*Register{one, two, handle(t, connect(t, s.srv))} {
				s.reserve(h, "order", 1_000_001)
				s.reserve(h, "late", c.late)
			}
			if seg, err := storetest.ReserveFirst(t.Context(), one, store.Tag{Name: "new", Step: 10, Next: 1}, 10); err != nil || seg.First < 1_000_001 {
				t.Errorf("a tag that comes into being: %v, %v", seg, err)
			}
			var below *store.BelowError
			if err := two.CreateTag(t.Context(), store.Tag{Name: "other", Step: 10, Next: 1}); !errors.As(err, &below) || below.Floor != 1_000_001 {
				t.Errorf("a tag that is created at 1: %v", err)
			}
		})
	}
}

// counted reports whether a poll has seen all entries of TestRegressions.
func (s *Register) counted() bool {
	return s.seen().Entries >= 3
}

func (s site) put(key, value string) {
	s.Helper()
	kv, err := s.js.KeyValue(s.Context(), BucketName(prefix))
	if err == nil {
		_, err = kv.Put(s.Context(), key, []byte(value))
	}
	if err != nil {
		s.Fatal(err)
	}
}

// purge removes the messages of a key, or all of them, without a trace.
func (s site) purge(key string) {
	s.Helper()
	stream, err := s.js.Stream(s.Context(), kv.StreamName(BucketName(prefix)))
	if err == nil {
		var opts []jetstream.StreamPurgeOpt
		if key != "" {
			opts = append(opts, jetstream.WithPurgeSubject("$KV."+BucketName(prefix)+"."+key))
		}
		err = stream.Purge(s.Context(), opts...)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// TestAwayIsNotBack: a server that is stopped and restarted with all its data
// ends nothing and needs no decision.
func TestAwayIsNotBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := s.loader(connect(t, s.srv))
	s.create(h, "order")
	last := s.reserve(h, "order", 1)
	s.srv.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if seg, err := storetest.Reserve(ctx, h, "order", 10); err == nil {
		t.Errorf("without a server: %v", seg)
	}
	s.srv.Restart()
	natstest.Eventually(t, "the loader goes on", func() bool {
		// Requests sent too early are never answered.
		call, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		seg, err := storetest.Reserve(call, h, "order", 10)
		if err == nil && seg.First < last.End {
			t.Fatalf("DUPLICATE: %v after %v", seg, last)
		}
		return err == nil
	})
	if h.Stopped() != nil || h.Figures().Regressions > 0 {
		t.Errorf("stopped: %v", h.Stopped())
	}
}

// TestStartsWithoutMemory: a loader that starts does not mistake a missing or
// recreated register for a new register, and does not create it.
func TestStartsWithoutMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	s.create(h, "order")
	s.delete()
	if _, err := Open(t.Context(), connect(t, s.srv)); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("a missing register: %v", err)
	}
	var older *kv.OlderError
	if err := Create(t.Context(), s.js, prefix, 1); !errors.As(err, &older) {
		t.Errorf("a missing register is made: %v", err)
	}
	s.makeAgain()
	if _, err := Open(t.Context(), connect(t, s.srv)); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("a register that was made again: %v", err)
	}
	s.raise(1000)
	h, err := Open(t.Context(), connect(t, s.srv))
	if err != nil {
		t.Fatal(err)
	}
	if seg, err := storetest.ReserveFirst(t.Context(), h, store.Tag{Name: "order", Step: 10, Next: 1}, 10); err != nil || seg.First != 1001 {
		t.Errorf("after the decision: %v, %v", seg, err)
	}
}

// TestWitness: a start is refused if the register or a bucket beside it is
// behind the witness, whatever decisions an older state has, until there is a
// new decision.
func TestWitness(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stream := kv.StreamName(BucketName(prefix))
	natstest.CreateBucket(t, s.js, "clock")
	clock, err := s.js.KeyValue(t.Context(), "clock")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "witness")
	configure := func() Config {
		cfg := connect(t, s.srv)
		w, err := OpenWitness(path)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Witness, cfg.Beside = w, []string{"clock"}
		return cfg
	}
	// serve starts a loader, has it reserve, and stops it.
	var end int64
	serve := func() {
		t.Helper()
		if _, err := clock.PutString(t.Context(), "x", "y"); err != nil {
			t.Fatal(err)
		}
		h := handle(t, configure())
		for range 10 {
			end = s.reserve(h, "order", end).End
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(why string) {
		t.Helper()
		cfg := configure()
		for range 2 { // operators restart a process that refused to start
			if _, err := Open(t.Context(), cfg); !errors.Is(err, store.ErrRegressed) {
				t.Fatalf("%s: %v, want ErrRegressed", why, err)
			}
		}
	}

	s.create(handle(t, connect(t, s.srv)), "order")
	serve()
	first := natstest.TakeSnapshot(t, s.conn, stream)
	serve()
	first.Restore(t, s.conn)
	refused("put back")
	s.raise(1000)
	decided := natstest.TakeSnapshot(t, s.conn, stream)
	serve()
	decided.Restore(t, s.conn)
	refused("put back with its decision")
	s.raise(1000)
	serve()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	serve() // with a new witness
	decided.Restore(t, s.conn)
	refused("put back to a decision of before the witness")
	s.raise(10_000)
	serve()
	first.Restore(t, s.conn)
	refused("put back to before the first decision")
	s.raise(1_000_000)
	serve()

	if err := s.js.DeleteKeyValue(t.Context(), "clock"); err != nil {
		t.Fatal(err)
	}
	natstest.CreateBucket(t, s.js, "clock")
	if err := configure().Witness.Compare(t.Context(), s.js, prefix, "clock"); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("the bucket beside it was made again: %v", err)
	}
	if clock, err = s.js.KeyValue(t.Context(), "clock"); err != nil {
		t.Fatal(err)
	}
	serve()

	other := newSite(t)
	cfg := connect(t, other.srv)
	cfg.Witness = configure().Witness
	other.create(handle(t, connect(t, other.srv)), "order")
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrForeignWitness) || !errors.Is(err, ErrWitness) {
		t.Errorf("the witness of another register: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenWitness(path); !errors.Is(err, ErrWitness) {
		t.Errorf("an unreadable witness: %v", err)
	}
}

// TestDeletedByHand: an entry that was deleted by hand is no tag, and returns
// only with a first ID that an administrator has chosen.
func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	s.create(h, "order")
	kv, err := s.js.KeyValue(t.Context(), BucketName(prefix))
	if err == nil {
		err = kv.Delete(t.Context(), "order")
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh := handle(t, connect(t, s.srv))
	if _, err := storetest.Reserve(t.Context(), fresh, "order", 1); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("Reserve: %v", err)
	}
	if _, err := storetest.ReserveFirst(t.Context(), fresh, store.Tag{Name: "order", Step: 1, Next: 1}, 1); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("ReserveFirst: %v", err)
	}
	if err := fresh.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1}); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("CreateTag: %v", err)
	}
	if err := fresh.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 500}); err != nil {
		t.Errorf("CreateTag with a first ID: %v", err)
	}
	s.reserve(fresh, "order", 500)
}

// TestOtherRows: rows whose names are not those of tags keep no raise from its
// end. They stay as they are, and nothing but a list of all rows has them.
func TestOtherRows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cfg := connect(s, s.srv)
	others := []string{"", "a b", "order ", "order:pay", strings.Repeat("a", 129), "\xff"}
	table := newFakeTable(1, 0, append(others, "order")...)
	cfg.Table = table
	h := handle(s, cfg)
	var planned, raised []string
	r := raiseBy(t, h, 100)
	if err := h.Preview(t.Context(), r, func(c Effect) { planned = append(planned, c.Name) }); err != nil {
		t.Error(err)
	}
	if _, err := raiseAll(t.Context(), h, r, alone, func(c Effect) { raised = append(raised, c.Name) }); err != nil {
		t.Errorf("raised: %v", err)
	}
	tags, removed, listed, err := h.AllTags(t.Context())
	if len(planned) != 1 || len(raised) != 1 || err != nil || len(tags) != 1 || tags[0].Next != 101 {
		t.Errorf("planned %q, raised %q, tags %v, %v; want order alone, at 101", planned, raised, tags, err)
	}
	found, err := h.Others(t.Context())
	if err != nil || len(removed) != 0 || len(listed) != len(others) || len(found) != len(others) {
		t.Errorf("%d others and %d alone, %d removed, %v; want %d", len(listed), len(found), len(removed), err, len(others))
	}
	for _, name := range others {
		if seg, err := storetest.Reserve(t.Context(), h, name, 10); !errors.Is(err, store.ErrBadTag) || table.rows[name] != 1 {
			t.Errorf("%q: reserved %v, %v, its row is at %d", name, seg, err, table.rows[name])
		}
	}
}

// TestUnreadableEntry: an entry that cannot be read is named, and stays; the other
// tags are raised, and decided upon.
func TestUnreadableEntry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	s.create(h, "order")
	s.put("bad", "{}")
	if _, err := raiseAll(t.Context(), h, raiseBy(t, h, 101), alone, func(Effect) {}); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "tag bad") {
		t.Errorf("with an entry that cannot be read: %v", err)
	}
	if found, err := h.remote.poll(t.Context()); err != nil || found.First != 102 || found.Mark != "" {
		t.Errorf("the others are not decided upon: %+v, %v", found, err)
	}
	if seg, err := storetest.Reserve(t.Context(), handle(t, connect(t, s.srv)), "order", 1); err != nil || seg.First != 102 {
		t.Errorf("after that: %v, %v", seg, err)
	}
}

// TestRaisedTooLittle: a loader reports by how much a raise was too small. That
// many IDs more are enough.
func TestRaisedTooLittle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	for _, tag := range []string{"order", "busy", "idle"} {
		s.create(h, tag)
	}
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	s.create(h, "late")
	for tag, grants := range map[string]int{"order": 5, "busy": 20, "late": 10} {
		for range grants {
			s.reserve(h, tag, 1)
		}
	}
	short := func() int64 {
		t.Helper()
		var wrong *store.RegressionError
		if err := h.poll(t.Context(), true); err == nil || !errors.As(h.Stopped(), &wrong) {
			t.Fatalf("the loader goes on: %v, %v", err, h.Stopped())
		}
		return wrong.Short
	}
	older.Restore(t, s.conn)
	if n := short(); n != 0 {
		t.Errorf("short of %d before any raise", n)
	}
	s.raise(20)
	for range 2 { // polls
		if n := short(); n != 180 {
			t.Errorf("raised by 20, short of %d, want 180: busy is at 21, and was granted up to 201", n)
		}
	}
	s.raise(179)
	if n := short(); n != 1 {
		t.Errorf("short of %d, want 1", n)
	}
	s.raise(1)
	if err := h.poll(t.Context(), true); err != nil || h.Stopped() != nil {
		t.Errorf("raised by enough: %v, %v", err, h.Stopped())
	}
	if first := h.Lowest(); first != 201 {
		t.Errorf("new tags begin at %d, want 201", first)
	}
	s.reserve(h, "busy", 201)
}

// TestConnectionWithoutReconnectBuffer: a connection with a buffer is refused.
func TestConnectionWithoutReconnectBuffer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	handle(t, connect(t, s.srv))
	if _, err := Open(t.Context(), Config{JetStream: s.js, Prefix: prefix}); !errors.Is(err, ErrReconnectBuffer) {
		t.Errorf("%v, want ErrReconnectBuffer", err)
	}
}

// TestCount: removed tags count, and are those whose entries a process has read
// although the tags do not exist.
func TestCount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	for _, tag := range []string{"chat.a", "chat.b", "chat.x.a", "chat", "order.a"} {
		s.create(h, tag)
	}
	if err := h.RemoveTag(t.Context(), "chat.b"); err != nil {
		t.Fatal(err)
	}
	for want, patterns := range map[int64][]string{2: {"chat.*"}, 3: {"chat.>"}, 5: {">"}, 4: {"chat.>", "order.*"}, 0: {"none.*"}} {
		if n, err := h.Count(t.Context(), patterns...); err != nil || n != want {
			t.Errorf("%v: %d tags, %v, want %d", patterns, n, err, want)
		}
	}
	fresh := handle(t, connect(t, s.srv))
	for tag, want := range map[string]bool{"chat.a": true, "chat.b": true, "chat.c": false} {
		_, _ = storetest.Reserve(t.Context(), fresh, tag, 1)
		if fresh.HasEntry(tag) != want || fresh.Known(tag) != (tag == "chat.a") {
			t.Errorf("%s: has an entry: %t, known: %t", tag, fresh.HasEntry(tag), fresh.Known(tag))
		}
	}
}

// TestWitnessAfterFailure: evidence that could not be written is written as
// soon as possible, and so is a refused decision, before the process ends.
func TestWitnessAfterFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stream := kv.StreamName(BucketName(prefix))
	dir := filepath.Join(t.TempDir(), "dir")
	open := func() (*Register, error) {
		cfg := connect(t, s.srv)
		var err error
		if cfg.Witness, err = OpenWitness(filepath.Join(dir, "witness")); err != nil {
			t.Fatal(err)
		}
		return Open(t.Context(), cfg)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.create(handle(t, connect(t, s.srv)), "order")
	must(os.Mkdir(dir, 0o700))
	h, err := open()
	must(err)
	s.reserve(h, "order", 1)
	older := natstest.TakeSnapshot(t, s.conn, stream)
	for range 10 {
		s.reserve(h, "order", 1)
	}
	must(os.Rename(dir, dir+".away"))
	if err := h.note(t.Context()); !errors.Is(err, ErrWitness) {
		t.Errorf("without its folder: %v", err)
	}
	must(os.Rename(dir+".away", dir))
	must(h.Close())
	older.Restore(t, s.conn)
	if _, err := open(); !errors.Is(err, store.ErrRegressed) {
		t.Fatalf("put back to what was noted before the failure: %v", err)
	}
	s.raise(20)
	if err := h.poll(t.Context(), true); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("raised by too little: %v", err)
	}
	if _, err := open(); !errors.Is(err, store.ErrRegressed) { // h was killed
		t.Errorf("a restart goes on with what was refused: %v", err)
	}
}

// TestWitnessWhileAway: the last grants before an outage are written to the
// witness, by a loader that continues and by a loader that is stopped.
func TestWitnessWhileAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	natstest.CreateBucket(t, s.js, "clock")
	s.create(handle(t, connect(t, s.srv)), "order")
	dir := t.TempDir()
	open := func(witness string) *Register {
		t.Helper()
		w, err := OpenWitness(filepath.Join(dir, witness))
		if err != nil {
			t.Fatal(err)
		}
		cfg := connect(t, s.srv)
		cfg.Witness, cfg.Beside = w, []string{"clock"}
		return handle(t, cfg)
	}
	stopped, running := open("stopped"), open("running")
	for _, h := range []*Register{stopped, running} {
		s.reserve(h, "order", 1)
	}
	s.srv.Stop()
	if err := stopped.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); running.Run(ctx, nil) }()
	for _, h := range []*Register{stopped, running} {
		seen := h.seen().Last
		natstest.Eventually(t, "the grant is noted", func() bool { return h.cfg.Witness.record(BucketName(prefix)).Last == seen })
	}
	cancel()
	<-ended
}

// TestMadeByHand: a bucket without an identity is no register.
func TestMadeByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	natstest.CreateBucket(t, s.js, BucketName(prefix))
	if err := Create(t.Context(), s.js, prefix, 1); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("%v, want ErrNoIdentity", err)
	}
	s.raise(1)
	handle(t, connect(t, s.srv))
}
