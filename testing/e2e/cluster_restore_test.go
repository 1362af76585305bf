package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/pages"
)

// TestClusterLosesAllServers: three servers lose their data under load and are
// restored by the commands of docs/backup-restore.md. Loaders and workers serve
// as before, whether they ran on or were started again. No ID comes twice, and
// the IDs of a strict tag stay in order.
func TestClusterLosesAllServers(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.address)
	}
	admin := clusterUser("admin", addresses)
	admin.succeeds(t, "provision", "--part", "ids", "--replicas", "3")
	admin.mustRun(t, "tag", "create", "order", "--step", "10")
	admin.mustRun(t, "tag", "create", strictTag, "--step", "10", "--order", "strict")
	serve := func(role string) *process { return clusterUser(role, addresses).launch(t, "serve", "--role", role) }
	processes := []*process{serve("loader"), serve("loader"), serve("worker"), serve("worker"), serve("worker")}
	for _, p := range processes {
		p.serving()
	}

	u, url := roles.UserNamed("caller"), "nats://"+strings.Join(addresses, ",nats://")
	login := []nats.Option{nats.UserInfo(u.Name, password(u)), nats.CustomInboxPrefix(u.Inbox), nats.MaxReconnects(-1)}
	services := startServices(t, url, "order", 2, login...)
	strict := startStrictCallers(t, url, 2, login...)
	both := func() {
		t.Helper()
		services.more(20)
		strict.more(20)
	}
	both()
	page := newTyping(t, url)
	page.block("idworker backup")
	both()

	processes[0].kill()
	processes[2].kill()
	for _, s := range servers {
		s.server.kill()
	}
	for _, s := range servers {
		s.data = t.TempDir()
		s.start()
	}
	awaitLeader(t, servers)
	said := page.block("idworker restore")
	restored := time.Now()
	strict.more(20)
	processes[0] = serve("loader")
	processes[0].serving()
	wait, err := time.ParseDuration(waitFor.FindStringSubmatch(said)[1])
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the lost time is past", func() bool { return time.Since(restored) > wait })
	page.block("nats kv del")
	processes[2] = serve("worker")
	processes[2].serving()
	both()
	natstest.Eventually(t, "the worker that was started again has a worker ID", func() bool {
		return strings.Contains(admin.run(t, "workers").stdout, processes[2].instance())
	})
	for _, p := range processes[3:] { // for the outage that the installation declares
		if p.says("worker ID given up") > 0 {
			t.Error("a worker that ran on gave its worker ID up")
		}
	}
	admin.succeeds(t, "doctor", "--role", "admin")
	services.finish()
	strict.finish()
	services.ledger.check(t)
	services.snowflakes.check(t)
	strict.check()
	for _, p := range processes {
		p.stop(syscall.SIGTERM)
	}
}

// waitFor is how long a restore orders to wait.
var waitFor = regexp.MustCompile(`(\d+s), then delete key `)

// typing types blocks of docs/backup-restore.md that testing/pages leaves out,
// in a terminal of a folder in which the cluster of docs/getting-started.md
// runs.
type typing struct {
	t      *testing.T
	blocks []pages.Block
	dir    string
	typed  []string // commands that set variables
}

func newTyping(t *testing.T, url string) *typing {
	t.Helper()
	y := &typing{t: t, dir: t.TempDir(), blocks: pages.Parse("", document(t, "backup-restore.md")).Blocks}
	for _, dir := range []string{"bin", "nats-data"} {
		if err := os.Mkdir(filepath.Join(y.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range users { // as make nats does
		write(t, y.dir, "nats-data/"+u.Name+".env", fmt.Sprintf("export NATS_URL=%s NATS_USER=%s NATS_PASSWORD=%s IDWORKER_INBOX_PREFIX=%s\n", url, u.Name, password(u), u.Inbox))
	}
	write(t, y.dir, "nats-data/store.env", "") // the counters are in JetStream
	if err := os.Symlink(binary, filepath.Join(y.dir, "bin/idworker")); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("go", "install", pages.NATSCLI)
	install.Env = append(os.Environ(), "GOBIN="+filepath.Join(y.dir, "bin"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install nats: %v\n%s", err, out)
	}
	return y
}

// block types the next block that was left out, and returns what it printed.
// One of its commands has to contain a text.
func (y *typing) block(text string) (printed string) {
	y.t.Helper()
	for y.blocks[0].NotRun == "" || !y.blocks[0].HasCommands() {
		y.blocks = y.blocks[1:]
	}
	b := y.blocks[0]
	y.blocks = y.blocks[1:]
	if !strings.Contains(strings.Join(b.Lines, "\n"), text) {
		y.t.Fatalf("line %d of the page does not type %s", b.Line, text)
	}
	steps, err := b.Steps()
	if err != nil {
		y.t.Fatal(err)
	}
	for _, s := range steps {
		cmd := exec.Command("bash", "-ec", strings.Join(append(y.typed, s.Command), "\n"))
		cmd.Dir, cmd.Env = y.dir, append(neutralEnv(), "PATH="+filepath.Join(y.dir, "bin")+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		y.t.Logf("$ %s\n%s", s.Command, out)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil || s.Output != nil && !pages.Matches(s.Output, lines, false) {
			y.t.Fatalf("line %d of the page: %s: %v", s.Line, s.Command, err)
		}
		if strings.HasPrefix(s.Command, ". ") {
			y.typed = append(y.typed, s.Command)
		}
		printed += string(out)
	}
	return printed
}
