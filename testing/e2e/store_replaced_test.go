package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// Tags of the lost installation, of the one that took its place, and of both
// once more have been made by a template.
var (
	volumeTags = []string{"order", "invoice", "chat.1"}
	laterTags  = append([]string{"later", "chat.2"}, volumeTags...)
	allTags    = append([]string{"chat.3"}, laterTags...)
)

// deploy is a deployment job.
func deploy(t *testing.T, url string, more ...string) {
	t.Helper()
	must(t, "provision", "--server", url, "--part", "ids")
	for _, tag := range append([]string{"order --step 10", "invoice --order strict", "chat.* --template"}, more...) {
		args := append([]string{"tag", "create", "--if-missing", "--server", url}, strings.Fields(tag)...)
		must(t, args...)
	}
}

// otherInstallation tries to restore, which is refused, and returns the ID of the other
// installation.
func otherInstallation(t *testing.T, at []string, tags string) (id string) {
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
// installation. The backup takes its place. A request that is sent after the
// restore has succeeded gets no ID that either installation had granted, even
// from workers that were away meanwhile, each in another way: those of the lost
// installation find it again, and those of the other one what took its place.
func TestRestoreAfterVolumeWasLost(t *testing.T) {
	t.Parallel()
	for _, awayOf := range []string{"the lost installation", "the other installation"} {
		t.Run("workers of "+awayOf+" are away", func(t *testing.T) {
			t.Parallel()
			s := startRaiseSite(t, settings{})
			backup := filepath.Join(t.TempDir(), "backup")
			var away []absent
			serve := func(installation string, more ...string) (running []*process) {
				t.Helper()
				deploy(t, s.net.URL(), append(more, takenTag)...)
				held := s.startWorkers(1)
				if running = append(held, s.loader); installation == awayOf {
					var workers []*process
					workers, away = s.startAbsent()
					held = append(held, workers...)
				}
				s.heldByAll(t, held, "chat.1", takenTag)
				s.served(t, volumeTags...)
				return running
			}
			lost := serve("the lost installation")
			s.ask(t, 4, volumeTags...)
			must(t, "backup", backup, "--server", s.net.URL())
			s.served(t, volumeTags...)
			leave := func() {
				for _, a := range away {
					a.leave(t)
				}
			}
			leave()
			empty := t.TempDir()
			s.copyData(t, s.data, empty)
			for _, p := range lost {
				p.kill()
			}
			s.startLoader()
			replaced := serve("the other installation", "later")
			s.served(t, laterTags...)
			if awayOf == "the other installation" {
				leave()
			}

			restore := []string{"restore", backup, "--yes", "--server", s.net.URL()}
			id := otherInstallation(t, restore, " with 6 tags")
			said := must(t, append(restore, "--replace-installation", id)...).stdout
			s.succeed(t)
			s.more(t, 10) // by processes that are to be restarted
			for _, p := range replaced {
				if name := "restart process " + p.instance(); !strings.Contains(said, name) {
					t.Errorf("restore does not say %q:\n%s", name, said)
				}
				p.stop(syscall.SIGTERM)
			}
			s.startLoader()
			s.startWorkers(1)
			for _, a := range away {
				a.back()
			}
			s.ask(t, 8, "chat.1", takenTag)
			for _, a := range away {
				s.answer(t, a.process)
			}
			s.more(t, 1000)
			if awayOf == "the other installation" {
				natstest.Eventually(t, "the caller gets what was taken for it", func() bool { return s.late(takenTag) > 0 })
				for _, a := range away {
					a.kill() // it cannot serve the installation that is there now
				}
			}
			s.served(t, append(allTags, takenTag)...)
			s.finish()
			s.check(t, "invoice")
			if r := must(t, "restore", backup, "--server", s.net.URL()); !strings.Contains(r.stdout, "nothing is missing") {
				t.Errorf("restored again:\n%s", r.stdout)
			}
			must(t, append(restore, "--replace-installation", id)...)
		})
	}
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
	given := ledger{tag: "order"}
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
	must(t, append(restore, "--replace-installation", otherInstallation(t, restore, " with 1 tag"))...)
	serve("loader")
	for range 10 {
		take()
	}
	given.check(t)
}
