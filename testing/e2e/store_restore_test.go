package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// refuses waits until a process has ended. It has to have refused to serve,
// with all of those texts.
func refuses(t *testing.T, p *process, says ...string) {
	t.Helper()
	if p.servesOrEnds() {
		t.Errorf("idworker %s serves, want a refusal with %q", p.name, says)
		p.kill()
		return
	}
	last := p.stderr.Tail()
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	for _, text := range says {
		if !strings.Contains(last, text) {
			t.Errorf("does not say %q:\n%s", text, last)
		}
	}
}

// registerAt is the last sequence of the register.
func registerAt(t testing.TB, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), registerBucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// moreGrants waits until some ranges were granted. Callers may live on memory
// for a while.
func moreGrants(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	target := registerAt(t, js) + 5
	natstest.Eventually(t, "ranges are granted", func() bool { return registerAt(t, js) >= target })
}

// noted waits until witnesses hold all that is in the register by now: a
// restore takes longer than the second between two notes.
func noted(t testing.TB, js jetstream.JetStream, witnesses ...string) {
	t.Helper()
	at := registerAt(t, js)
	natstest.Eventually(t, "the witnesses are up to date", func() bool {
		for _, path := range witnesses {
			var seen map[string]struct{ Seen uint64 }
			data, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(data, &seen) != nil || seen["ids_register"].Seen < at {
				return false
			}
		}
		return true
	})
}

// TestDataFolder: a server whose data folder is put back, or lacks its witness,
// does not start, and names the command that helps. After that it serves, and
// no ID comes twice. A server whose folder is removed while it serves ends.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	witness := data + ".witness"
	server := startServer(t, data, folderSteps...)
	createTag(t, server.url, "order", "--step", "10")
	js := newJetStream(t, connect(t, server.url))
	load := startCallers(t, server.url, load{
		callers: 4, tags: []string{"order"}, maxBatch: 50, timeout: 5 * time.Second, retry: func(error) bool { return true }, // it will be gone
	})
	moreGrants(t, js) // for some history
	backup := filepath.Join(t.TempDir(), "backup")
	if out, err := exec.Command("cp", "-a", data, backup).CombinedOutput(); err != nil {
		t.Logf("files come and go while they are copied: %v: %s", err, out)
	}
	moreGrants(t, js)
	noted(t, js, witness)
	server.kill()
	load.finish()
	recent := data + ".recent"
	if err := os.Rename(data, recent); err != nil {
		t.Fatal(err)
	}
	restart := func() *process {
		return settings{}.launch(t, "serve", "--listen", freeAddress(t), "--data", data)
	}
	put := func(from string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(from))); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(before ...[]string) {
		t.Helper()
		server := startServer(t, data, folderSteps...)
		for _, command := range before {
			must(t, append(command, "--server", server.url)...)
		}
		client := dial(t, server.url)
		for range 50 {
			load.ledgers["order"].add(client.get(t, "order", 100))
		}
		load.ledgers.check(t)
		server.stop(syscall.SIGTERM)
	}
	remedy := "idworker tag raise --all --by N --data " + data

	t.Run("put back", func(t *testing.T) {
		put(backup)
		for range 2 {
			refuses(t, restart(), "old copy", "bucket ids_register is at sequence ", ", was at ", remedy)
		}
		put(t.TempDir())
		refuses(t, restart(), "old copy", "bucket ids_register is missing", remedy)
	})
	t.Run("with the folder that was in use", func(t *testing.T) {
		if err := errors.Join(os.RemoveAll(data), os.Rename(recent, data)); err != nil {
			t.Fatal(err)
		}
		serve() // its IDs count for the rest
	})
	t.Run("put back and raised", func(t *testing.T) {
		put(backup)
		refuses(t, restart(), remedy)
		must(t, "tag", "raise", "--all", "--by", "100000000", "--data", data)
		serve()
	})
	t.Run("emptied and raised", func(t *testing.T) {
		put(t.TempDir())
		refuses(t, restart(), remedy)
		must(t, "tag", "raise", "--all", "--by", "10000000000", "--data", data)
		serve([]string{"tag", "create", "order", "--step", "10", "--first", "10000000001"})
	})
	t.Run("without its witness", func(t *testing.T) {
		if err := os.Rename(witness, witness+".elsewhere"); err != nil {
			t.Fatal(err)
		}
		refuses(t, restart(), "its witness is gone", "no "+witness, "set --witness", remedy)
		startServer(t, data, "--witness", witness+".elsewhere").stop(syscall.SIGTERM)
		if err := os.Rename(witness+".elsewhere", witness); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("removed while in use", func(t *testing.T) {
		server := startServer(t, data)
		if err := os.Rename(data, data+".moved"); err != nil {
			t.Fatal(err)
		}
		if code := server.wait(); code != exitFailure || !strings.Contains(server.stderr.String(), "removed or replaced while in use: "+data) {
			t.Errorf("exit code %d, want %d and a reason:\n%s", code, exitFailure, server.stderr.Tail())
		}
	})
}
