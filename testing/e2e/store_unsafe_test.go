package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
)

// unsafe are changes of the register's settings that the page's commands undo,
// by the flag of the command.
var unsafe = map[string]func(*jetstream.StreamConfig){
	"--max-age=0":              func(c *jetstream.StreamConfig) { c.MaxAge = 1000 * time.Hour },
	"--discard=new":            func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
	"--ack":                    func(c *jetstream.StreamConfig) { c.NoAck = true },
	"--retention=limits":       func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
	"--max-msgs-per-subject=1": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 },
	"--no-transform": func(c *jetstream.StreamConfig) {
		c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.ids_register.>", Destination: "other.>"}
	},
}

// unsafeSite is a server with nats.conf, on which the page is typed.
type unsafeSite struct {
	*production
	page *typing
	js   jetstream.JetStream // of the user admin
}

// TestUnsafeRegister: commands refuse a register with a setting that loses
// entries. The commands of docs/backup-restore.md put it right, or make a new
// register of a backup, and no ID comes twice.
func TestUnsafeRegister(t *testing.T) {
	t.Parallel()
	p := startProduction(t, natsConf)
	s := &unsafeSite{p, newTyping(t, "nats://"+p.address), natstest.JetStream(t, p.connect("admin"))}
	p.provision()
	p.must("admin", "tag", "create", "order", "--step", "10")
	s.edited(t)
	s.madeAnew(t)
}

// set changes the register's settings, and returns those from before.
func (s *unsafeSite) set(t *testing.T, change func(*jetstream.StreamConfig)) (before jetstream.StreamConfig) {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), registerBucket)
	if err != nil {
		t.Fatal(err)
	}
	before = stream.CachedInfo().Config
	after := before
	change(&after)
	if _, err := s.js.UpdateStream(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	return before
}

// refused checks that commands refuse the register and name the page's section.
func (s *unsafeSite) refused(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"tag", "ls"}, {"restore", filepath.Join(s.page.dir, "backups/tuesday"), "--yes"}} {
		r := s.as("admin").run(t, args...)
		if r.code != exitFailure || !strings.Contains(r.stderr, "see A register that cannot be opened in docs/backup-restore.md") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// edited tries each of the page's edits. The command asks, and refuses to without
// a terminal, so it is typed with --dry-run, and the test makes the change.
func (s *unsafeSite) edited(t *testing.T) {
	t.Helper()
	s.page.block("idworker backup")
	admin := roles.UserNamed("admin")
	found := regexp.MustCompile("`nats (stream edit KV_ids_register (--\\S+))`").FindAllStringSubmatch(document(t, "backup-restore.md"), -1)
	if len(found) != len(unsafe) {
		t.Fatalf("%d edits on the page, and the test knows of %d", len(found), len(unsafe))
	}
	for _, f := range found {
		change := unsafe[f[2]]
		if change == nil {
			t.Fatalf("the test does not know of %s", f[2])
		}
		before := s.set(t, change)
		s.refused(t)
		edit := exec.Command(filepath.Join(s.page.dir, "bin/nats"), append(strings.Fields(f[1]), "--dry-run", "--inbox-prefix", admin.Inbox)...)
		edit.Env = append(neutralEnv(), "NATS_URL=nats://"+s.address, "NATS_USER="+admin.Name, "NATS_PASSWORD="+password(admin))
		out, _ := edit.CombinedOutput() // differences are exit code 1
		if n := len(regexp.MustCompile(`(?m)^\+`).FindAll(out, -1)); !strings.Contains(string(out), "Differences") || n > 1 {
			t.Errorf("%s changes\n%s", f[1], out)
		}
		s.set(t, func(c *jetstream.StreamConfig) { *c = before })
		s.must("admin", "tag", "ls")
	}
}

// madeAnew puts back what the edits have lost, and then makes the register anew
// while the loaders are stopped. The backup lacks two of its tags, and one of
// them is above the target of the raise.
func (s *unsafeSite) madeAnew(t *testing.T) {
	t.Helper()
	var issued order.Ledger
	s.must("admin", "restore", filepath.Join(s.page.dir, "backups/tuesday"), "--raise-anyway", "--yes")
	s.must("admin", "tag", "create", "late", "--step", "10", "--order", "strict")
	s.must("admin", "tag", "create", "high", "--step", "10")
	s.must("admin", "tag", "raise", "high", "--next", "90000000000000000")
	serve := func() {
		t.Helper()
		loader, worker := s.serve("loader", "--role", "loader"), s.serve("worker", "--role", "worker")
		for _, tag := range []string{"order", "late", "high"} {
			for _, line := range s.must("caller", "get", tag, "20").lines() {
				id, err := strconv.ParseInt(line, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				issued.Add(tag, 1, messages.Range{First: id, Last: id})
			}
		}
		loader.stop(syscall.SIGTERM)
		worker.stop(syscall.SIGTERM)
	}
	serve()
	s.set(t, func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true })
	s.refused(t)
	for !strings.Contains(strings.Join(s.page.blocks[0].Lines, "\n"), "nats stream rm -f KV_ids_register --") {
		s.page.blocks = s.page.blocks[1:]
	}
	said := s.page.block("nats stream rm")
	next := regexp.MustCompile(`high: \{"next":(\d+)`).FindStringSubmatch(said)
	if next == nil {
		t.Fatal("the list has no tag high")
	}
	s.must("admin", "tag", "create", "late", "--step", "10", "--order", "strict")
	s.must("admin", "tag", "create", "high", "--step", "10")
	s.must("admin", "tag", "raise", "high", "--next", next[1])
	serve()
	issued.Check(t)
}
