package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// refuses waits until a process has ended, which must have refused to serve and say all of that.
func refuses(t *testing.T, p *process, says ...string) {
	t.Helper()
	if p.servesOrEnds() {
		t.Errorf("idworker %s serves, and should say %q", p.name, says)
		p.kill()
		return
	}
	last := p.stderr.Tail()
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, text := range says {
		if !strings.Contains(last, text) {
			t.Errorf("does not say %q:\n%s", text, last)
		}
	}
}

// TestDataFolder: what becomes of a server whose folder is put back, removed, or copied without its witness. How a folder is
// judged is tested in cmd/internal/embedded.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	server := startServer(t, data, folderSteps...)
	createTag(t, server.url, "order", "--step", "10")
	load := startCallers(t, server.url, load{
		callers: 4, tags: []string{"order"}, maxBatch: 50, timeout: 5 * time.Second, retry: func(error) bool { return true }, // it will be gone
	})
	load.more(1000) // for some history
	backup := filepath.Join(t.TempDir(), "backup")
	if out, err := exec.Command("cp", "-a", data, backup).CombinedOutput(); err != nil {
		t.Logf("files come and go while they are copied: %v: %s", err, out)
	}
	load.more(1000)
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
	serve := func() {
		t.Helper()
		server := startServer(t, data, folderSteps...)
		client := dial(t, server.url)
		for range 50 {
			load.ledgers["order"].add(client.get(t, "order", 100))
		}
		load.ledgers.check(t)
		server.stop(syscall.SIGTERM)
	}

	t.Run("put back", func(t *testing.T) {
		put(backup)
		for range 2 {
			refuses(t, restart(), "older copy", "key order of bucket ids_segments is at ", "but was seen at ", "idworker tag raise --all --by N --data "+data)
		}
		put(t.TempDir())
		refuses(t, restart(), "older copy", "bucket ids_segments is missing", "idworker tag raise")
	})
	t.Run("with the folder that was in use", func(t *testing.T) {
		if err := errors.Join(os.RemoveAll(data), os.Rename(recent, data)); err != nil {
			t.Fatal(err)
		}
		serve() // and what it hands out counts for the rest
	})
	for name, from := range map[string]string{"raised": backup, "empty, and raised": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			put(from)
			refuses(t, restart(), "idworker tag raise")
			must(t, "tag", "raise", "--all", "--by", "10000", "--data", data)
			serve()
		})
	}
	t.Run("without its witness", func(t *testing.T) {
		witness := data + ".witness"
		if err := os.Rename(witness, witness+".elsewhere"); err != nil {
			t.Fatal(err)
		}
		refuses(t, restart(), "its witness is gone", "nothing is in "+witness, "name it with --witness", "idworker tag raise --all --by N --data "+data)
		startServer(t, data, "--witness", witness+".elsewhere").stop(syscall.SIGTERM)
		if err := errors.Join(os.RemoveAll(witness), os.Rename(witness+".elsewhere", witness)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("removed while in use", func(t *testing.T) {
		server := startServer(t, data)
		if err := os.Rename(data, data+".moved"); err != nil {
			t.Fatal(err)
		}
		if code := server.wait(); code != exitFailure || !strings.Contains(server.stderr.String(), "removed or replaced while it was in use: "+data) {
			t.Errorf("exit code %d, want %d and a reason:\n%s", code, exitFailure, server.stderr.Tail())
		}
	})
}

// TestCountersThatAreGone: where counters in a server of the operator's are missing or went back, nobody makes empty ones
// or counts from what is there, and every command says what can be done.
func TestCountersThatAreGone(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js := newJetStream(t, net.Connect(t))
	remove := func() {
		t.Helper()
		if err := js.DeleteKeyValue(t.Context(), "ids_segments"); err != nil {
			t.Fatal(err)
		}
	}
	ledger := &ledger{tag: "order"}
	take := func() {
		t.Helper()
		client := dial(t, net.URL())
		for range 20 {
			ledger.add(client.get(t, "order", 100))
		}
		ledger.check(t)
	}
	args := []string{"serve", "--server", net.URL(), "--witness", filepath.Join(t.TempDir(), "witness")}
	refused := func(args []string, says ...string) {
		t.Helper()
		for range 2 {
			refuses(t, settings{}.launch(t, args...), says...)
		}
	}
	serves := func() {
		t.Helper()
		p := settings{}.launch(t, args...)
		p.serving()
		take()
		p.stop(syscall.SIGTERM)
	}
	first := settings{}.launch(t, args...)
	first.serving()
	createTag(t, net.URL(), "order", "--step", "10")
	take()
	first.stop(syscall.SIGTERM)

	t.Run("they went back, and there is a witness", func(t *testing.T) {
		kv, err := js.KeyValue(t.Context(), "ids_segments")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.PutString(t.Context(), "order", `{"max_id":11,"step":10}`); err != nil { // an older state
			t.Fatal(err)
		}
		refused(args, "key order of bucket ids_segments is at 11, but was seen at ", "idworker tag raise")
		must(t, "tag", "raise", "--server", net.URL(), "order", "--by", "100000000")
		serves()
	})
	t.Run("they are not made again", func(t *testing.T) {
		remove()
		refused(args, "bucket ids_segments is missing", "idworker tag raise")
		says := []string{"bucket ids_segments is missing, but the installation is older", "ids_config says that it counts in jetstream", "idworker tag import"}
		refused([]string{"serve", "--server", net.URL()}, says...) // without a witness
		for part, code := range map[string]int{"all": 1, "ids": 1, "enrich": 0} {
			if r := run(t, "provision", "--server", net.URL(), "--part", part); r.code != code || code == 1 && !strings.Contains(r.stderr, says[0]) {
				t.Errorf("provision --part %s (%d): %s", part, r.code, r.stderr)
			}
		}
		if _, err := js.KeyValue(t.Context(), "ids_segments"); err == nil {
			t.Error("there is a bucket again")
		}
	})
	t.Run("they were made again by hand", func(t *testing.T) {
		natstest.CreateBucket(t, js, "ids_segments")
		refused(args, "key order of bucket ids_segments is missing, but was seen at ", "idworker tag raise")
		must(t, "tag", "create", "--server", net.URL(), "order", "--first", "1000000001")
		serves()
	})
}
