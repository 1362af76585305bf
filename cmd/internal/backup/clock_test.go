package backup

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
)

const prefix = messages.DefaultPrefix

// begin makes an installation with the tag order, without processes.
func begin(t *testing.T, js jetstream.JetStream) backend.Backend {
	t.Helper()
	source, err := backend.Parse("jetstream", "")
	if err = errors.Join(err, agreement.Begin(t.Context(), js, prefix, 1, "test"), register.Create(t.Context(), js, prefix, 1)); err != nil {
		t.Fatal(err)
	}
	list, err := tags.Parse(strings.NewReader("order 1000 5\n"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := tags.Open(t.Context(), js, prefix, source)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if err := all.Import(t.Context(), list, func(tags.Change) {}); err != nil {
		t.Fatal(err)
	}
	return source
}

// TestBackupHasTheServersTime: a backup's time is the NATS server's, and if this
// machine's clock differs by more than 10 s there is no backup: one of both is
// wrong.
func TestBackupHasTheServersTime(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source := begin(t, js)
	for _, off := range []time.Duration{0, 8 * time.Second, -8 * time.Second, time.Hour, -time.Hour, 24 * time.Hour} {
		before := time.Now()
		b, err := take(t.Context(), js, prefix, source, "test", func() time.Time { return time.Now().Add(off) })
		if off.Abs() > tags.MaxClockDiff {
			if !errors.Is(err, ErrClock) || !strings.Contains(err.Error(), "this machine") || !strings.Contains(err.Error(), "the NATS server") {
				t.Errorf("with the clock off by %v: %v", off, err)
			}
			continue
		}
		if err != nil || b.Taken.Before(before) || b.Taken.After(time.Now()) {
			t.Errorf("with the clock off by %v: %v, taken at %v, %v", off, err, b.Taken, before)
		}
	}
}

// TestRestoreFromTheFuture: whatever a clock was when a backup was taken, or when
// tags were raised before, a restore works with the right clock, shows how far the
// time lies ahead, and targets never fall.
func TestRestoreFromTheFuture(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source := begin(t, js)
	b, err := Take(t.Context(), js, prefix, source, "test")
	if err != nil {
		t.Fatal(err)
	}
	b.Taken = time.Now().Add(48 * time.Hour)
	floor := b.Taken.UnixMicro()
	for range 2 {
		for name := range js.StreamNames(t.Context()).Name() {
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		var plan RestorePlan
		done, err := Restoring{
			Backup: b, Resources: func(int) []kv.Resource { return nil },
			Confirm: func(p RestorePlan) error { plan = p; return nil }, Report: func(tags.Change) {},
		}.Restore(t.Context(), js, prefix, source)
		if err != nil || done.Target < floor {
			t.Fatalf("target %d, earlier ones are up to %d, %v", done.Target, floor, err)
		}
		if plan.Future < 47*time.Hour || !plan.Unconfirmed {
			t.Errorf("the plan shows a time %v ahead of the clock, unconfirmed: %v", plan.Future, plan.Unconfirmed)
		}
		floor = done.Target
		raised, err := tags.RaiseAll(t.Context(), js, prefix, source, tags.Raising{Report: func(tags.Change) {}})
		if err != nil || raised.Target <= floor {
			t.Fatalf("raised to %d, was at %d, %v", raised.Target, floor, err)
		}
		floor = raised.Target
		if b, err = Take(t.Context(), js, prefix, source, "test"); err != nil { // by the right clock
			t.Fatal(err)
		}
	}
}

// TestEditedBackup: a backup whose settings cannot be restored is refused when it
// is read, also with right checksums.
func TestEditedBackup(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	b, err := Take(t.Context(), js, prefix, begin(t, js), "test")
	if err != nil {
		t.Fatal(err)
	}
	read := func(change func(*Backup)) error {
		t.Helper()
		folder, edited := filepath.Join(t.TempDir(), "b"), b
		edited.Config = maps.Clone(b.Config)
		if err := b.Write(folder); err != nil {
			t.Fatal(err)
		}
		change(&edited)
		manifest, err := json.Marshal(edited.Manifest)
		list := new(strings.Builder)
		err = errors.Join(err, edited.List.Text(list), os.WriteFile(filepath.Join(folder, manifestFile), manifest, 0o600),
			os.WriteFile(filepath.Join(folder, tagsFile), []byte(list.String()), 0o600))
		sums := fmt.Sprintf("%x  %s\n%x  %s\n", sha256.Sum256(manifest), manifestFile, sha256.Sum256([]byte(list.String())), tagsFile)
		if err = errors.Join(err, os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err = Read(folder)
		return err
	}
	if err := read(func(*Backup) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Backup){
		"a floor below 1":      func(b *Backup) { b.Floor = -5 },
		"a key with a path":    func(b *Backup) { b.Config["../x"] = "y" },
		"a key with a space":   func(b *Backup) { b.Enrichments = map[string]string{"a b": "y"} },
		"a wildcard":           func(b *Backup) { b.Config["*"] = "y" },
		"a bad prefix":         func(b *Backup) { b.Prefix = "a.b" },
		"7 replicas":           func(b *Backup) { b.Replicas = 7 },
		"no replicas":          func(b *Backup) { b.Replicas = 0 },
		"no time":              func(b *Backup) { b.Taken = time.Time{} },
		"another ID":           func(b *Backup) { b.Installation = "other" },
		"an ID without a time": func(b *Backup) { b.Config[agreement.InstallationKey] = b.Installation },
		"an odd decision":      func(b *Backup) { b.Decisions = []string{"a b"} },
		"an odd layout":        func(b *Backup) { b.Config["layout"] = "41 bits" },
		"an odd outage":        func(b *Backup) { b.Config["outage"] = "soon" },
		"a negative first ID": func(b *Backup) {
			b.List.Tags = slices.Clone(b.List.Tags)
			b.List.Tags[0].Next = -1
		},
	} {
		if err := read(change); !errors.Is(err, ErrFolder) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoInstallationIsRaised: where there is no installation, a raise creates
// nothing: its buckets would have one replica, and a restore or provision is what
// is needed.
func TestNoInstallationIsRaised(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tags.RaiseAll(t.Context(), js, prefix, source, tags.Raising{Report: func(tags.Change) {}}); !errors.Is(err, tags.ErrEmpty) {
		t.Errorf("%v, want %v", err, tags.ErrEmpty)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("it has created %s", name)
	}
}

// TestRestoreShowsTooFewReplicas: the register that a restore makes has the
// backup's replicas, whatever the settings have. Buckets that exist stay as they
// are, and are named.
func TestRestoreShowsTooFewReplicas(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.StartCluster(t, 3).Connect(t, nats.ReconnectBufSize(-1)))
	source := begin(t, js)
	b, err := Take(t.Context(), js, prefix, source, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), kv.StreamName(register.BucketName(prefix))); err != nil {
		t.Fatal(err)
	}
	b.Replicas = 3
	done, err := Restoring{
		Backup: b, Confirm: func(RestorePlan) error { return nil }, Report: func(tags.Change) {},
		Resources: func(n int) []kv.Resource {
			return []kv.Resource{agreement.Bucket(prefix, n), register.Bucket(prefix, n)}
		},
	}.Restore(t.Context(), js, prefix, source)
	if want := []string{"bucket " + agreement.BucketName(prefix)}; err != nil || done.Undone != nil || done.Wanted != 3 || !slices.Equal(done.Fewer, want) {
		t.Errorf("with too few replicas: %v, want %v of %d; %v, %v", done.Fewer, want, done.Wanted, err, done.Undone)
	}
}
