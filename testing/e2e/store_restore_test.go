package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// refuses waits until a process has ended, which must have refused to serve and say all of that.
func refuses(t *testing.T, p *process, says ...string) {
	t.Helper()
	if p.servesOrEnds() {
		t.Errorf("idworker %s serves", p.name)
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

// TestDataFolderPutBack: the data folder of a server under load is put back to a copy that is
// some seconds old, its witness beside it stays. The server refuses, as often as it is started,
// and says which commands decide. With the folder that was in use it serves.
func TestDataFolderPutBack(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	server := startServer(t, data, folderSteps...)
	createTag(t, server.url, "order", "--step", "10")
	load := startCallers(t, server.url, load{
		callers: 4, tags: []string{"order"}, maxBatch: 50, timeout: 5 * time.Second, retry: func(error) bool { return true },
	})
	time.Sleep(time.Second) // for some history
	backup := filepath.Join(t.TempDir(), "backup")
	if out, err := exec.Command("cp", "-a", data, backup).CombinedOutput(); err != nil {
		t.Logf("files come and go while they are copied: %v: %s", err, out)
	}
	time.Sleep(time.Duration(tier.Pick(2, 10)) * time.Second) // how old the copy is
	server.kill()
	load.finish()
	load.ledgers.check(t)

	recent := data + ".recent"
	if err := os.Rename(data, recent); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p := settings{}.launch(t, "serve", "--listen", freeAddress(t), "--data", data)
		refuses(t, p, "older copy", "key order of bucket ids_segments is at ", "but was seen at ", "idworker tag raise --all --by N --data "+data)
	}
	serve := func(data string) {
		t.Helper()
		server := startServer(t, data, folderSteps...)
		client := dial(t, server.url)
		for range 50 {
			natstest.Eventually(t, "IDs", func() bool { // the machine may be busy
				ranges, err := requestIDs(client, "order", 100)
				if err != nil && !errors.Is(err, messages.ErrUnavailable) {
					t.Fatal(err)
				}
				load.ledgers["order"].add(ranges)
				return err == nil
			})
		}
		load.ledgers.check(t)
		server.stop(syscall.SIGTERM)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	p := settings{}.launch(t, "serve", "--listen", freeAddress(t), "--data", data)
	refuses(t, p, "older copy", "bucket ids_segments is missing", "idworker tag raise")

	// The folder that was in use is served from, and what it hands out counts for the rest.
	if err := errors.Join(os.RemoveAll(data), os.Rename(recent, data)); err != nil {
		t.Fatal(err)
	}
	serve(data)

	// So is the copy, once its tags have been raised; and an empty folder, likewise.
	for _, again := range []string{backup, ""} {
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if again == "" {
			again = t.TempDir()
		}
		if err := os.CopyFS(data, os.DirFS(again)); err != nil {
			t.Fatal(err)
		}
		refuses(t, settings{}.launch(t, "serve", "--listen", freeAddress(t), "--data", data), "idworker tag raise")
		must(t, "tag", "raise", "--all", "--by", "10000", "--data", data)
		serve(data)
	}
}

// TestDataFolderWithoutItsWitness: a copy on another machine is refused, and so is the folder in
// a container whose own file system is new, until the witness is where it was.
func TestDataFolderWithoutItsWitness(t *testing.T) {
	t.Parallel()
	data, volume := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "witness")
	server := startServer(t, data, "--witness", volume)
	createTag(t, server.url, "order")
	server.stop(syscall.SIGTERM)
	p := settings{}.launch(t, "serve", "--listen", freeAddress(t), "--data", data)
	refuses(t, p, "its witness is gone", "nothing is in "+data+".witness", "name it with --witness", "idworker tag raise --all --by N --data "+data)
	startServer(t, data, "--witness", volume).stop(syscall.SIGTERM)
}

// TestOldWitnessIsTakenOver: a folder with the witness in it, as older versions left it, is served
// from, and from then on has it beside it.
func TestOldWitnessIsTakenOver(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	server := startServer(t, data)
	createTag(t, server.url, "order")
	server.stop(syscall.SIGTERM)
	for _, bucket := range []string{"ids_segments", "ids_clock", "ids_config"} {
		content, err := os.ReadFile(filepath.Join(data+".witness", bucket+".witness"))
		if err != nil {
			t.Fatal(err)
		}
		var old []string
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) == 3 {
				old = append(old, fields[0]+" "+fields[2]+"\n")
			}
		}
		if err := os.WriteFile(filepath.Join(data, bucket+".witness"), []byte(strings.Join(old, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(data, "idworker.id"), data + ".witness"} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		server = startServer(t, data)
		if moved := strings.Contains(server.stderr.String(), "moves out of it"); moved != (round == 0) {
			t.Errorf("start %d: says that the witness moves: %v", round, moved)
		}
		if _, err := requestIDs(dial(t, server.url), "order", 1); err != nil {
			t.Error(err)
		}
		server.stop(syscall.SIGTERM)
	}
	if left, err := filepath.Glob(filepath.Join(data, "*.witness")); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestNewInstallationIsAnnounced: a server that is started in another working directory finds no
// data, and says that it begins anew, and where. Each start says where its data is.
func TestNewInstallationIsAnnounced(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	for i, start := range []struct {
		dir string
		new bool
	}{{first, true}, {first, false}, {second, true}} {
		p := settings{dir: start.dir}.launch(t, "serve", "--listen", freeAddress(t))
		p.serving()
		data := filepath.Join(start.dir, "idworker-data")
		logged := p.stderr.String()
		if announced := strings.Contains(logged, "\twarn\tnew installation in "+data+":"); announced != start.new {
			t.Errorf("start %d: announced as new: %v\n%s", i, announced, logged)
		}
		_, serving, _ := strings.Cut(logged, "\tserving\t")
		if !strings.Contains(serving, fmt.Sprintf(`"data": %q, "witness": %q`, data, data+".witness")) {
			t.Errorf("start %d does not say where its data is: %s", i, serving)
		}
		p.stop(syscall.SIGTERM)
	}
}

// TestLoaderWithAWitness: a loader that uses a server of its operator's refuses counters that went
// back, and a bucket that was made again, and serves once they were raised.
func TestLoaderWithAWitness(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js, err := jetstream.New(net.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--witness", filepath.Join(t.TempDir(), "witness")}
	ledger := &ledger{tag: "order"}
	serve := func() {
		t.Helper()
		p := startWorker(t, net.URL(), args...)
		createTagOnce(t, net.URL())
		for range 20 {
			ranges, err := requestIDs(dial(t, net.URL()), "order", 100)
			if err != nil {
				t.Fatal(err)
			}
			ledger.add(ranges)
		}
		p.stop(syscall.SIGTERM)
		ledger.check(t)
	}
	refused := func(says ...string) {
		t.Helper()
		for range 2 {
			refuses(t, settings{}.launch(t, append([]string{"serve", "--server", net.URL()}, args...)...), append(says, "idworker tag raise")...)
		}
	}
	serve()
	kv, err := js.KeyValue(t.Context(), "ids_segments")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "order", `{"max_id":11,"step":10}`); err != nil { // an older state
		t.Fatal(err)
	}
	refused("key order of bucket ids_segments is at 11, but was seen at ")
	must(t, "tag", "raise", "--server", net.URL(), "order", "--by", "100000000")
	serve()
	if err := js.DeleteKeyValue(t.Context(), "ids_segments"); err != nil {
		t.Fatal(err)
	}
	refused("bucket ids_segments is missing")
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ids_segments"}); err != nil {
		t.Fatal(err)
	}
	refused("key order of bucket ids_segments is missing, but was seen at ")
	must(t, "tag", "create", "--server", net.URL(), "order", "--first", "1000000001")
	serve()
}

// createTagOnce creates tag order with a small step, unless it is there.
func createTagOnce(t *testing.T, url string) {
	t.Helper()
	if list := must(t, "tag", "ls", "--server", url).stdout; !strings.Contains(list, "order") {
		createTag(t, url, "order", "--step", "10")
	}
}

// TestCountersAreNotMadeAgain: when the bucket of counters is gone, neither serve nor provision
// makes an empty one, and both name the evidence and what can be done.
func TestCountersAreNotMadeAgain(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	p := startWorker(t, net.URL())
	createTag(t, net.URL(), "order")
	p.stop(syscall.SIGTERM)
	js, err := jetstream.New(net.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "ids_segments"); err != nil {
		t.Fatal(err)
	}
	says := []string{"bucket ids_segments is missing, but the installation is older", "ids_config says that it counts in jetstream", "idworker tag import"}
	for range 2 {
		refuses(t, settings{}.launch(t, "serve", "--server", net.URL()), says...)
		for part, code := range map[string]int{"all": 1, "ids": 1, "enrich": 0} {
			if r := run(t, "provision", "--server", net.URL(), "--part", part); r.code != code || code == 1 && !strings.Contains(r.stderr, says[0]) {
				t.Errorf("provision --part %s (%d): %s", part, r.code, r.stderr)
			}
		}
	}
	if _, err := js.KeyValue(t.Context(), "ids_segments"); err == nil {
		t.Error("there is a bucket again")
	}
}
