package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/natstest"
)

// lostVolume is an installation whose data is lost, and the IDs that were
// handed out before its backup was restored.
type lostVolume struct {
	url    string
	before ledgers // of the installation and of the one that took its place
}

var (
	volumeTags = []string{"order", "invoice", "chat.1"}
	laterTags  = append([]string{"later", "chat.2"}, volumeTags...) // that the new installation has
	allTags    = append([]string{"chat.3"}, laterTags...)
)

func newLostVolume(url string) *lostVolume { return &lostVolume{url, newLedgers(allTags)} }

// deploy is a deployment job.
func (v *lostVolume) deploy(t *testing.T, more ...string) {
	t.Helper()
	must(t, "provision", "--server", v.url, "--part", "ids")
	for _, tag := range append([]string{"order --step 10", "invoice --order strict", "chat.* --template"}, more...) {
		args := append([]string{"tag", "create", "--if-missing", "--server", v.url}, strings.Fields(tag)...)
		must(t, args...)
	}
}

// take takes IDs of tags. Those of the new installation may be those of the old
// one.
func (v *lostVolume) take(t *testing.T, tags []string, installations int) {
	t.Helper()
	client := dial(t, v.url)
	defer client.conn.Close()
	for _, tag := range tags {
		l := v.before[tag]
		for range 50 {
			l.add(client.get(t, tag, 100))
		}
		if installations > 1 {
			l.Forgive()
		}
	}
	v.before.check(t)
}

// refused tries to restore, which is refused, and returns the ID of the other
// installation.
func (v *lostVolume) refused(t *testing.T, at []string, tags string) (id string) {
	t.Helper()
	r := run(t, at...)
	_, id, _ = strings.Cut(r.stderr, "--replace-installation ")
	id, _, _ = strings.Cut(strings.TrimSpace(id), " ")
	id, _, _ = strings.Cut(id, "\n")
	if r.code != exitUsage || id == "" || !strings.Contains(r.stderr, id+", since 20") || !strings.Contains(r.stderr, tags) {
		t.Fatalf("exit code %d, want a refusal with the other installation's ID, age and %s: %s", r.code, tags, r.stderr)
	}
	if other := run(t, append(at, "--replace-installation", "x"+id)...); other.code != exitUsage {
		t.Errorf("with another ID: exit code %d: %s", other.code, other.stderr)
	}
	return id
}

// TestRestoreAfterVolumeWasLost: the NATS server is back without its data, and
// before anyone notices, processes and a deployment job have made a new
// installation. The backup takes its place, and from then on no ID comes that
// either of them had handed out.
func TestRestoreAfterVolumeWasLost(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	net := natstest.Start(t, func(o *server.Options) { o.StoreDir = data })
	v := newLostVolume(net.URL())
	serve := func() (all []*process) {
		for range 2 {
			all = append(all, startWorker(t, v.url, folderSteps...))
		}
		return all
	}
	processes := serve()
	v.deploy(t)
	v.take(t, volumeTags, 1)
	must(t, "backup", backup, "--server", v.url)
	v.take(t, volumeTags, 1)
	net.Stop()
	if err := errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o700)); err != nil {
		t.Fatal(err)
	}
	net.Restart()
	for _, p := range processes {
		p.kill()
	}
	v.deploy(t, "later")
	processes = serve()
	v.take(t, laterTags, 2)

	restore := []string{"restore", backup, "--yes", "--server", v.url}
	id := v.refused(t, restore, " with 5 tags")
	r := must(t, append(restore, "--replace-installation", id)...)
	v.take(t, laterTags, 1) // of processes that are to be restarted
	for _, p := range processes {
		if name := "restart process " + p.instance(); !strings.Contains(r.stdout, name) {
			t.Errorf("restore does not say %q:\n%s", name, r.stdout)
		}
		p.stop(syscall.SIGTERM)
	}
	serve()
	v.take(t, allTags, 1)
	if r := must(t, "restore", backup, "--server", v.url); !strings.Contains(r.stdout, "nothing is missing") {
		t.Errorf("restored again:\n%s", r.stdout)
	}
	must(t, append(restore, "--replace-installation", id)...)
	v.take(t, allTags, 1)
}

// TestRestoreAfterRaiseWasLost: the data is lost after a raise. All that is left
// of the raise, and of segments larger than the microseconds that have passed,
// are workers. They belong to another installation than the one that the backup
// replaces, and still count.
func TestRestoreAfterRaiseWasLost(t *testing.T) {
	t.Parallel()
	const million = "1000000"
	net, backup := natstest.Start(t), filepath.Join(t.TempDir(), "backup")
	at := func(args ...string) []string { return append(args, "--server", net.URL()) }
	serve := func(role string) *process {
		return startWorker(t, net.URL(), "--role", role, "--max-step", million, "--max-batch", million)
	}
	v, given := newLostVolume(net.URL()), ledger{tag: "order"}
	client := dial(t, net.URL())
	take := func() int64 {
		ranges := client.get(t, "order", 1_000_000)
		given.add(ranges)
		return ranges[len(ranges)-1].Last
	}
	loader := serve("loader")
	create := at("tag", "create", "--if-missing", "order", "--step", million)
	must(t, create...)
	must(t, at("backup", backup)...)
	raiseAll(t, "--server", net.URL())
	for range 3 {
		serve("worker")
	}
	for take() < time.Now().Add(10*time.Second).UnixMicro() {
	}
	loader.kill()
	js := natstest.JetStream(t, client.conn)
	for name := range js.StreamNames(t.Context()).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	must(t, at("provision", "--part", "ids", "--new")...)
	must(t, create...)
	refuses(t, settings{}.launch(t, at("serve", "--role", "loader")...), "another installation answers") // but has given it an ID
	restore := at("restore", backup, "--yes")
	must(t, append(restore, "--replace-installation", v.refused(t, restore, " with 1 tag"))...)
	serve("loader")
	for range 10 {
		take()
	}
	given.check(t)
}

// TestRestoreFolder: the data folder of the embedded server is lost, with its
// witness, and in its place there is that of a new installation. No ID comes
// that was handed out before the restore.
func TestRestoreFolder(t *testing.T) {
	t.Parallel()
	data, backup := filepath.Join(t.TempDir(), "ids"), filepath.Join(t.TempDir(), "backup")
	v := newLostVolume("")
	live := func(tags []string, installations int, commands ...func()) {
		t.Helper()
		server := startServer(t, data, append([]string{"--lease-ttl", "15s"}, folderSteps...)...) // a lost lease has to end
		v.url = server.url
		for _, f := range commands {
			f()
		}
		v.take(t, tags, installations)
		server.stop(syscall.SIGTERM)
	}
	live(volumeTags, 1, func() { v.deploy(t); v.take(t, volumeTags, 1); must(t, "backup", backup, "--server", v.url) })
	live(volumeTags, 1)
	if err := errors.Join(os.RemoveAll(data), os.RemoveAll(data+".witness")); err != nil {
		t.Fatal(err)
	}
	live(laterTags, 2, func() { v.deploy(t, "later") })
	restore := []string{"restore", backup, "--data", data, "--yes"}
	id := v.refused(t, restore, " tags")
	if r := must(t, append(restore, "--replace-installation", id)...); !strings.Contains(r.stdout, data+" can be served again") {
		t.Errorf("restore says:\n%s", r.stdout)
	}
	live(allTags, 1)
}
