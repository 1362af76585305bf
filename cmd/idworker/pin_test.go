package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestPinned: behind an empty server, a command with --installation creates
// nothing, and prints what to do in both cases. --new makes the installation once,
// however often it is called.
func TestPinned(t *testing.T) {
	ns := natstest.Start(t)
	js := natstest.JetStream(t, ns.Connect(t))
	list := filepath.Join(t.TempDir(), "tags.txt")
	if err := os.WriteFile(list, []byte("order 10 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pinned := func(id string, args ...string) result {
		t.Helper()
		return command(t, append(args, "--server", ns.URL(), "--installation", id)...)
	}
	commands := [][]string{{"serve"}, {"serve", "--role", "worker"}, {"provision"}, {"tag", "create", "order"}, {"tag", "import", list}, {"tag", "raise", "--all"}}
	for _, args := range commands {
		r := pinned("pinned", args...)
		if r.code != exitFailure || !strings.Contains(r.stderr, "idworker restore DIR") || !strings.Contains(r.stderr, "idworker provision --new --installation pinned") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("%s was created", name)
	}
	if r := pinned("a.b", "provision", "--new"); r.code != exitUsage {
		t.Errorf("malformed ID: %+v", r)
	}
	if r := pinned("pinned", "provision", "--new"); r.code != exitOK || !strings.Contains(r.stdout, "installation: pinned\n") {
		t.Errorf("--new: %+v", r)
	}
	if r := pinned("pinned", "provision", "--new"); r.code != exitOK || !strings.Contains(r.stdout, "installation: pinned\n") {
		t.Errorf("--new again, as after an attempt that did not end: %+v", r)
	}
	if r := pinned("pinned", "serve", "--new"); r.code != exitUsage || !strings.Contains(r.stderr, "bucket ids_config exists") {
		t.Errorf("a second start with --new: %+v", r)
	}
	if r := pinned(strings.Repeat("n", 33), "provision", "--new"); r.code != exitUsage || !strings.Contains(r.stderr, "1 to 32 letters") {
		t.Errorf("an ID that processes would drop: %+v", r)
	}
	for _, id := range []string{"other", ""} {
		if r := pinned(id, "provision", "--new"); r.code != exitUsage || !strings.Contains(r.stderr, "bucket ids_config exists") {
			t.Errorf("--new for %q: %+v", id, r)
		}
	}
	if r := pinned("pinned", "tag", "create", "order"); r.code != exitOK {
		t.Errorf("tag create: %+v", r)
	}
	for _, args := range commands {
		if r := pinned("other", args...); r.code != exitFailure || !strings.Contains(r.stderr, "--replace-installation pinned") {
			t.Errorf("another installation, %v: %+v", args, r)
		}
	}
	// A second attempt does not replace what a loader has used, and was lost.
	if err := register.Record(t.Context(), js, messages.DefaultPrefix); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
		t.Fatal(err)
	}
	if r := pinned("pinned", "provision", "--new"); r.code == exitOK || !strings.Contains(r.stderr, "ids_register") {
		t.Errorf("--new without the register: %+v", r)
	}
	if _, err := js.KeyValue(t.Context(), "ids_register"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the register came back: %v", err)
	}
}

// TestPinnedFolder: the embedded server makes no installation in an empty folder
// without --new.
func TestPinnedFolder(t *testing.T) {
	data := filepath.Join(t.TempDir(), "ids")
	r := command(t, "serve", "--listen", "127.0.0.1:"+strconv.Itoa(freeport.Get(t)), "--data", data, "--installation", "pinned")
	if r.code != exitFailure || !strings.Contains(r.stderr, "idworker restore DIR") {
		t.Errorf("%+v", r)
	}
	streams, err := filepath.Glob(filepath.Join(data, "jetstream/*/streams/*"))
	if _, noWitness := os.Stat(data + ".witness"); err != nil || len(streams) > 0 || !os.IsNotExist(noWitness) {
		t.Errorf("made %v, %v; witness: %v", streams, err, noWitness)
	}
}
