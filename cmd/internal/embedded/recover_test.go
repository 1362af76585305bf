package embedded

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
)

const prefix = messages.DefaultPrefix

// openStore opens the segment store of a server.
func openStore(t *testing.T, s *Server) *jetstreamstore.Store {
	t.Helper()
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := jetstreamstore.Create(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	segments, err := jetstreamstore.Open(t.Context(), js, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

// handedOut is the end of what was handed out of each tag; no reservation may begin below it.
type handedOut map[string]int64

func (h handedOut) reserve(t *testing.T, s store.Store, tag string, times int) {
	t.Helper()
	for range times {
		segment, err := s.Reserve(t.Context(), tag, 10)
		if err != nil {
			t.Fatal(err)
		}
		h.add(t, tag, segment)
	}
}

func (h handedOut) add(t *testing.T, tag string, segment store.Segment) {
	t.Helper()
	if segment.First < h[tag] {
		t.Errorf("DUPLICATE: %v of %s, after all below %d", segment, tag, h[tag])
	}
	h[tag] = segment.End
}

func create(t *testing.T, s store.Store, tag string) {
	t.Helper()
	if err := s.CreateTag(t.Context(), store.Tag{Name: tag, Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
}

// restored makes a data folder that was put back to an older state, after more was handed out,
// of a tag that was not there yet, too.
func restored(t *testing.T) (Config, handedOut) {
	t.Helper()
	cfg := config(filepath.Join(t.TempDir(), "data"))
	cfg.Counter = backend.Counter
	given := make(handedOut)
	s := start(t, cfg)
	segments := openStore(t, s)
	create(t, segments, "order")
	create(t, segments, "idle")
	given.reserve(t, segments, "order", 3)
	s.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(cfg.Folder)); err != nil {
		t.Fatal(err)
	}
	s = start(t, cfg)
	segments = openStore(t, s)
	create(t, segments, "late")
	if err := s.Witness(t.Context(), []string{jetstreamstore.BucketName(prefix)}); err != nil {
		t.Fatal(err)
	}
	given.reserve(t, segments, "order", 50)
	given.reserve(t, segments, "late", 5)
	sees(t, cfg, given)
	s.Stop()
	remove(t, cfg.Folder)
	copyFolder(t, cfg.Folder, backup)
	return cfg, given
}

// sees waits until the witness has noted all that was handed out.
func sees(t *testing.T, cfg Config, given handedOut) {
	t.Helper()
	dir := t.TempDir()
	natstest.Eventually(t, "all is noted", func() bool {
		_ = os.CopyFS(filepath.Join(dir, "w"), os.DirFS(WitnessOf(cfg.Folder)))
		defer func() { _ = os.RemoveAll(filepath.Join(dir, "w")) }()
		w, err := witness.Open(filepath.Join(dir, "w"), cfg.Counter, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		return w.Seen(jetstreamstore.BucketName(prefix))["late"] == given["late"] && w.Seen(jetstreamstore.BucketName(prefix))["order"] == given["order"]
	})
}

// TestRecover: a folder that was put back is refused, and says what is lost. It serves again
// after its counters were raised, and hands out nothing twice.
func TestRecover(t *testing.T) {
	t.Parallel()
	cfg, given := restored(t)
	err := fails(t, cfg)
	var forgot *witness.ForgotError
	if !errors.Is(err, ErrDamaged) || !errors.As(err, &forgot) || len(forgot.Losses) != 2 {
		t.Fatalf("%v, want ErrDamaged and what is lost", err)
	}
	if l := forgot.Losses[0]; l.Key != "order" || l.Found != 31 || l.Seen != given["order"] {
		t.Errorf("%+v", l)
	}
	if l := forgot.Losses[1]; l.Key != "late" || !l.Missing || l.Seen != given["late"] {
		t.Errorf("%+v", l)
	}

	cfg.Recover = true
	bucket := []string{jetstreamstore.BucketName(prefix)}
	for range 2 { // a recovery that was broken off is begun again
		s := start(t, cfg)
		if s.nats.Addr() != nil {
			t.Error("it listens")
		}
		lost, err := s.Lost(t.Context())
		if err != nil || lost == nil {
			t.Fatalf("%v, %v", lost, err)
		}
		if err := s.Renew(t.Context(), bucket); !errors.Is(err, witness.ErrForgot) {
			t.Errorf("renewed without raising: %v", err)
		}
		s.Stop()
	}
	s := start(t, cfg)
	segments := openStore(t, s)
	lost, err := s.Lost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raised, err := witness.RaiseAll(t.Context(), segments, lost.Losses, 1000, 10)
	if err != nil || len(raised) != 3 {
		t.Fatalf("%v, %v", raised, err)
	}
	if err := s.Renew(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	s.Stop()

	cfg.Recover = false
	for range 2 {
		s := start(t, cfg)
		segments := openStore(t, s)
		if err := s.Witness(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
		for _, tag := range []string{"order", "late", "idle"} {
			given.reserve(t, segments, tag, 5)
		}
		s.Stop()
	}
}

// TestRecoverWithoutAWitness: all is raised by what an operator says, and the folder has a
// witness again.
func TestRecoverWithoutAWitness(t *testing.T) {
	t.Parallel()
	cfg, given := restored(t)
	remove(t, WitnessOf(cfg.Folder))
	if err := fails(t, cfg); !errors.Is(err, ErrNoWitness) {
		t.Fatalf("%v, want ErrNoWitness", err)
	}
	cfg.Recover = true
	s := start(t, cfg)
	segments := openStore(t, s)
	if lost, err := s.Lost(t.Context()); lost != nil || err != nil {
		t.Fatalf("%v, %v", lost, err)
	}
	if _, err := witness.RaiseAll(t.Context(), segments, nil, 1000, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), []string{jetstreamstore.BucketName(prefix)}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	cfg.Recover = false
	s = start(t, cfg)
	segments = openStore(t, s)
	given.reserve(t, segments, "order", 5)
	s.Stop()
	remove(t, filepath.Join(cfg.Folder, "jetstream"))
	if err := fails(t, cfg); !errors.Is(err, ErrDamaged) {
		t.Errorf("after the recovery nobody looks: %v", err)
	}
}

// TestRecoverRefuses what is not there.
func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	cfg := config(filepath.Join(t.TempDir(), "missing"))
	cfg.Recover = true
	if err := fails(t, cfg); !errors.Is(err, ErrFolder) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that there is no such folder", err)
	}
}

// TestRecoverWithWitnessOfAnother: a folder beside the witness of another folder is refused, and can be
// recovered; the witness is its own then, and the other folder is refused in its place.
func TestRecoverWithWitnessOfAnother(t *testing.T) {
	t.Parallel()
	whole, _ := used(t)
	other, _ := used(t)
	cfg := config(whole)
	cfg.Witness = WitnessOf(other)
	for range 2 {
		if err := fails(t, cfg); !errors.Is(err, ErrNoWitness) {
			t.Fatalf("with the witness of another: %v", err)
		}
		cfg.Recover = true
		start(t, cfg).Stop() // broken off
		cfg.Recover = false
	}
	cfg.Recover = true
	s := start(t, cfg)
	if err := s.Renew(t.Context(), []string{"b"}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	cfg.Recover = false
	start(t, cfg).Stop()
	if err := fails(t, config(other)); !errors.Is(err, ErrNoWitness) {
		t.Errorf("the folder whose witness it was: %v", err)
	}
}

// TestRaiseAll never lowers, and uses up a tag that has fewer numbers left.
func TestRaiseAll(t *testing.T) {
	t.Parallel()
	s := start(t, config(t.TempDir()))
	segments := openStore(t, s)
	create(t, segments, "order")
	next := func() int64 {
		list, err := segments.Tags(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0].Next
	}
	raise := func(seen, by int64) error {
		_, err := witness.RaiseAll(context.Background(), segments, []witness.Loss{{Key: "order", Seen: seen}, {Bucket: "b", Missing: true}}, by, 10)
		return err
	}
	if err := raise(500, 0); err != nil || next() != 500 {
		t.Errorf("to what was seen: %v, %d", err, next())
	}
	if err := raise(5, 7); err != nil || next() != 507 {
		t.Errorf("above what is there: %v, %d", err, next())
	}
	if err := raise(5, -1); err == nil || next() != 507 {
		t.Errorf("lowered: %v, %d", err, next())
	}
	if err := raise(1<<62, 1<<62); err != nil || next() != math.MaxInt64 {
		t.Errorf("past the end: %v, %d", err, next())
	}
}

// TestRaiseAllRaisesRemovedTags: one that was removed is raised where it is remembered, above
// what was seen of it.
func TestRaiseAllRaisesRemovedTags(t *testing.T) {
	t.Parallel()
	s := start(t, config(t.TempDir()))
	segments := openStore(t, s)
	create(t, segments, "gone")
	if err := segments.RemoveTag(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := witness.RaiseAll(t.Context(), segments, []witness.Loss{{Key: "gone", Seen: 500}}, 7, 10); err != nil {
		t.Fatal(err)
	}
	removed, err := segments.Removed(t.Context())
	if err != nil || len(removed) != 1 || removed[0].Next != 507 {
		t.Errorf("%v, %v, want gone at 507", removed, err)
	}
}
