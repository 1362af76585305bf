package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/storetest"
)

// openStore opens the register of a server, as a loader in its process does.
func openStore(t *testing.T, s *NATS) *register.Register {
	t.Helper()
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := register.Create(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	segments, err := register.Open(t.Context(), register.Config{JetStream: js, Prefix: prefix, Witness: s.Witness(), Beside: s.cfg.Beside})
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

// shut closes a register, as a clean stop does.
func shut(t *testing.T, s *register.Register) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// raise raises all tags of a folder, as the command in the hint does.
func raise(t *testing.T, cfg Config, by int64) {
	t.Helper()
	cfg.Recover = true
	s := start(t, cfg)
	defer s.Stop()
	if s.nats.Addr() != nil {
		t.Error("it listens")
	}
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	found, err := register.Look(t.Context(), js, prefix)
	if err == nil {
		err = raiseAll(t.Context(), js, register.Raise{Target: found.Floor + by, By: by})
	}
	if err == nil {
		err = s.Witness().Accept(t.Context(), js, prefix, cfg.Beside...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// raiseAll raises all tags, and decides.
func raiseAll(ctx context.Context, js jetstream.JetStream, r register.Raise) error {
	admin, err := register.OpenToRaise(ctx, register.Config{JetStream: js, Prefix: prefix}, 1, 0, true)
	if err != nil {
		return err
	}
	mark, err := admin.Mark(ctx, r.Target, register.MarkOptions{Over: true, Alone: true})
	if err != nil {
		return err
	}
	err = admin.Rewrite(ctx, r, func(register.Effect) {})
	return mark.Finish(ctx, err, register.Decision{Time: time.Now()})
}

// handedOut is the end of each tag's issued IDs; no reservation may begin
// below.
type handedOut map[string]int64

func (h handedOut) reserve(t *testing.T, s *register.Register, tag string, times int) {
	t.Helper()
	for range times {
		segment, err := storetest.Reserve(t.Context(), s, tag, 10)
		if err != nil {
			t.Fatal(err)
		}
		h.add(t, tag, segment.Segment)
	}
}

func (h handedOut) add(t *testing.T, tag string, segment store.Segment) {
	t.Helper()
	if segment.First < h[tag] {
		t.Errorf("DUPLICATE: %v of %s, after all below %d", segment, tag, h[tag])
	}
	h[tag] = segment.End
}

func create(t *testing.T, s *register.Register, tag string) {
	t.Helper()
	if err := s.CreateTag(t.Context(), store.Tag{Name: tag, Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
}

// used creates a data folder with issued IDs, and an older copy of it.
func used(t *testing.T) (cfg Config, older string, given handedOut) {
	t.Helper()
	cfg, older, given = config(filepath.Join(t.TempDir(), "data")), filepath.Join(t.TempDir(), "older"), make(handedOut)
	s := start(t, cfg)
	segments := openStore(t, s)
	create(t, segments, "order")
	given.reserve(t, segments, "order", 3)
	shut(t, segments)
	s.Stop()
	if err := os.CopyFS(older, os.DirFS(cfg.Folder)); err != nil {
		t.Fatal(err)
	}
	s = start(t, cfg)
	segments = openStore(t, s)
	given.reserve(t, segments, "order", 50)
	shut(t, segments)
	s.Stop()
	return cfg, older, given
}

// TestRecover: an older folder is refused, with its witness and without. After
// a raise it serves again, and issues nothing twice.
func TestRecover(t *testing.T) {
	t.Parallel()
	for _, witnessed := range []bool{true, false} {
		cfg, older, given := used(t)
		remove(t, cfg.Folder)
		copyFolder(t, cfg.Folder, older)
		want := ErrDamaged
		if !witnessed {
			remove(t, WitnessOf(cfg.Folder))
			want = ErrNoWitness
		}
		if err := fails(t, cfg); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		broken := cfg
		broken.Recover = true
		start(t, broken).Stop() // an interrupted recovery
		if err := fails(t, cfg); !errors.Is(err, want) {
			t.Fatalf("after a recovery that did nothing: %v", err)
		}
		raise(t, cfg, 1000)
		for range 2 {
			s := start(t, cfg)
			segments := openStore(t, s)
			given.reserve(t, segments, "order", 5)
			shut(t, segments)
			s.Stop()
		}
		remove(t, filepath.Join(cfg.Folder, "jetstream"))
		if err := fails(t, cfg); !errors.Is(err, ErrDamaged) {
			t.Errorf("after the recovery nothing is compared: %v", err)
		}
	}
}

// TestRecoverRefuses a missing folder.
func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	cfg := config(filepath.Join(t.TempDir(), "missing"))
	cfg.Recover = true
	if err := fails(t, cfg); !errors.Is(err, ErrFolder) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that there is no such folder", err)
	}
}

// TestClockBehindADecision: a decision about tags says nothing about the time of
// snowflake IDs. A folder whose bucket of that time is behind the witness is
// refused until the witness accepts it.
func TestClockBehindADecision(t *testing.T) {
	t.Parallel()
	cfg := config(filepath.Join(t.TempDir(), "data"))
	cfg.Beside = []string{"ids_clock"}
	clock := func(js jetstream.JetStream, entries int) {
		t.Helper()
		if err := kv.Ensure(t.Context(), js, kv.LastingBucket(kv.Lasting{Bucket: "ids_clock"})); err != nil {
			t.Fatal(err)
		}
		bucket, err := js.KeyValue(t.Context(), "ids_clock")
		for range entries {
			if err == nil {
				_, err = bucket.PutString(t.Context(), "1", "time")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, cfg)
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	clock(js, 5)
	conn.Close()
	segments := openStore(t, s)
	create(t, segments, "order")
	shut(t, segments)
	s.Stop()

	recovering := cfg
	recovering.Recover = true
	s = start(t, recovering)
	conn, js, err = s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), kv.StreamName("ids_clock")); err != nil {
		t.Fatal(err)
	}
	clock(js, 1)
	if err := raiseAll(t.Context(), js, register.Raise{Target: 1000}); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	s.Stop() // killed before Accept

	if s, err := Start(t.Context(), cfg); !errors.Is(err, ErrDamaged) {
		s.Stop()
		t.Fatalf("it is served: %v", err)
	}
	s = start(t, recovering)
	conn, js, err = s.Connect()
	if err == nil {
		err = s.Witness().Accept(t.Context(), js, prefix, cfg.Beside...)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	s.Stop()
	start(t, cfg).Stop()
}
