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

	"github.com/idworker/idworker/testing/freeport"
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

// restoredFolder is the data folder of an embedded server, and the IDs that were
// issued from it and its copies.
type restoredFolder struct {
	path    string
	ledgers ledgers
}

// put replaces the folder by a copy of another.
func (f restoredFolder) put(t *testing.T, from string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(f.path), os.CopyFS(f.path, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

func (f restoredFolder) launch(t *testing.T) *process {
	t.Helper()
	return settings{}.launch(t, "serve", "--listen", freeport.Address(t), "--data", f.path)
}

// serve runs a server on the folder, with some commands at first, and checks
// the IDs that it issues.
func (f restoredFolder) serve(t *testing.T, before ...[]string) {
	t.Helper()
	server := startServer(t, f.path, append([]string{"--lease-ttl", "15s"}, folderSteps...)...)
	for _, command := range before {
		must(t, append(command, "--server", server.url)...)
	}
	client := dial(t, server.url)
	for tag, l := range f.ledgers {
		for range 50 {
			l.add(client.get(t, tag, 100))
		}
	}
	f.ledgers.check(t)
	server.stop(syscall.SIGTERM)
}

// raiseAll raises all tags by the time, and returns the lowest first ID of new
// tags.
func raiseAll(t testing.TB, where ...string) int64 {
	t.Helper()
	r := must(t, append([]string{"tag", "raise", "--all", "--yes", "--json"}, where...)...)
	var raised struct {
		Floor int64 `json:",string"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &raised); err != nil || raised.Floor <= 0 {
		t.Fatalf("tag raise: %v\n%s", err, r.stdout)
	}
	return raised.Floor
}

// TestDataFolder: a server whose data folder is put back, or lacks its witness,
// does not start, and names the command that helps. After that it serves, and
// no ID comes twice, however often the same copy is put back. A server whose folder is removed while it serves ends.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	witness := data + ".witness"
	server := startServer(t, data, append([]string{"--lease-ttl", "15s"}, folderSteps...)...)
	createTag(t, server.url, "order", "--step", "10")
	js := natstest.JetStream(t, connect(t, server.url))
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
	f := restoredFolder{data, load.ledgers}
	remedy := "idworker tag raise --all --data " + data

	t.Run("put back", func(t *testing.T) {
		f.put(t, backup)
		for range 2 {
			refuses(t, f.launch(t), "old copy", "bucket ids_register is at sequence ", ", was at ", remedy)
		}
		f.put(t, t.TempDir())
		refuses(t, f.launch(t), "old copy", "bucket ids_register is missing", remedy)
	})
	t.Run("with the folder that was in use", func(t *testing.T) {
		if err := errors.Join(os.RemoveAll(data), os.Rename(recent, data)); err != nil {
			t.Fatal(err)
		}
		f.serve(t) // its IDs count for the rest
	})
	t.Run("put back and raised, twice", func(t *testing.T) {
		for range 2 {
			f.put(t, backup)
			refuses(t, f.launch(t), remedy)
			raiseAll(t, "--data", data)
			f.serve(t)
		}
		f.serve(t)
	})
	t.Run("emptied and raised", func(t *testing.T) {
		f.put(t, t.TempDir())
		refuses(t, f.launch(t), remedy)
		raiseAll(t, "--data", data)
		f.serve(t, []string{"tag", "create", "order", "--step", "10"})
	})
	t.Run("without its witness", func(t *testing.T) {
		if err := os.Rename(witness, witness+".elsewhere"); err != nil {
			t.Fatal(err)
		}
		refuses(t, f.launch(t), "its witness is gone", "no "+witness, "set --witness", remedy)
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

// TestNumberTwice: a copy of a data folder is put back and raised by a number,
// and then the same copy again by the same number, which could repeat IDs. The
// command refuses, and names one that succeeds.
func TestNumberTwice(t *testing.T) {
	t.Parallel()
	for _, number := range [][]string{{"--by", "1000000000"}, {"invoice.*=20000"}} {
		t.Run(strings.Join(number, " "), func(t *testing.T) {
			t.Parallel()
			tags := []string{"order", "invoice.7"}
			f := restoredFolder{filepath.Join(t.TempDir(), "data"), newLedgers(tags)}
			raise := append([]string{"tag", "raise", "--all", "--yes", "--data", f.path}, number...)
			f.serve(t, []string{"tag", "create", "order", "--step", "10"}, []string{"tag", "create", "invoice.7", "--order", "strict"})
			backup := filepath.Join(t.TempDir(), "backup")
			if err := os.CopyFS(backup, os.DirFS(f.path)); err != nil {
				t.Fatal(err)
			}
			f.serve(t)
			f.put(t, backup)
			must(t, raise...)
			f.serve(t)
			f.put(t, backup)
			const instead = "idworker tag raise --all;"
			if r := run(t, raise...); r.code != exitUsage || !strings.Contains(r.stderr, "an earlier raise was undone") || !strings.Contains(r.stderr, instead) {
				t.Errorf("the same number again (%d) is not refused with %q: %s", r.code, instead, r.stderr)
			}
			raiseAll(t, "--data", f.path)
			f.serve(t)
		})
	}
}
