package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// compiled stands for the go command in the Makefile, and copies what is
// compiled already. The server's process writes down its ID.
const compiled = `#!/bin/sh
mkdir -p bin
case $3 in
bin/idworker) cp %q $3 ;;
bin/nats-server) printf '#!/bin/sh\necho $$ > pid\nexec %%s "$@"\n' %q > $3 && chmod +x $3 ;;
esac
`

// TestMakeNats: the server of `make nats` has nothing to warn of, and each of
// its users logs in with what nats-data has for it, also with a password of an
// earlier version, and with those that the environment had. The second start
// changes none of these.
func TestMakeNats(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("left out: needs make")
	}
	bin, err := natsServer()
	if err != nil {
		t.Fatalf("build nats-server: %v", err)
	}
	m := makeNats{t: t, dir: t.TempDir(), port: freeport.Get(t)}
	for _, name := range []string{"Makefile", "nats.conf", "docs/deploy/local.sh"} {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		m.write(name, string(data), 0o600)
	}
	m.write("go.mod", "", 0o600)
	m.write("compiled", fmt.Sprintf(compiled, binary, bin), 0o700)
	const old = "p5c1f0a9d7e4b28365f0c9ad1e7b34268"
	m.write("nats-data/passwords", `export IDS_BACKUP_PASSWORD="${IDS_BACKUP_PASSWORD:-`+old+`}"`+"\n", 0o600)

	log := m.start()
	if strings.Contains(log, "Plaintext passwords") || strings.Contains(log, old) {
		t.Fatalf("make nats:\n%s", log)
	}
	passwords := map[string]string{"backup": old, "caller": "it's secret", "order": "my password"}
	for _, u := range append(roles.Users(), roles.User{Name: "sys", Inbox: "_INBOX"}) {
		at := m.read(u.Name)
		if at.url != fmt.Sprintf("nats://127.0.0.1:%d", m.port) || at.user != u.Name || at.inbox != u.Inbox {
			t.Errorf("%s: %+v", u.Name, at)
		}
		if want := passwords[u.Name]; want != "" && at.password != want {
			t.Errorf("%s: password %q, want %q", u.Name, at.password, want)
		}
		passwords[u.Name] = at.password
		if conn, err := nats.Connect(at.url, nats.UserInfo(at.user, at.password)); err != nil {
			t.Errorf("%s: %v", u.Name, err)
		} else {
			conn.Close()
		}
		if info, err := os.Stat(filepath.Join(m.dir, "nats-data", u.Name+".env")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", u.Name, info, err)
		}
	}

	m.stop()
	m.start()
	for user, before := range passwords {
		if after := m.read(user).password; after != before {
			t.Errorf("%s: after the second start the password is %q, want %q", user, after, before)
		}
	}
}

// TestLocalSettingsRefused: a number that moves no port, or moves one beyond the
// last, and the terminal of a server, which has hashes in the place of passwords,
// are refused before anything is written.
func TestLocalSettingsRefused(t *testing.T) {
	t.Parallel()
	refused := func(env, want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"docs/deploy/local.sh"}, args...)...)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env)
		if err := os.CopyFS(filepath.Join(cmd.Dir, "docs/deploy"), os.DirFS("../../docs/deploy")); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, want %q\n%s", args, err, want, out)
		}
		if _, err := os.Stat(filepath.Join(cmd.Dir, "nats-data")); err == nil {
			t.Errorf("%q: nats-data was written", args)
		}
	}
	for _, offset := range []string{"x", "-1", "1.5", "0100", "56446", "99999999999999999999"} {
		refused("", "PORT_OFFSET="+offset+": allowed are 0 to 56445", "run", offset)
	}
	for _, target := range []string{"run", "nats", "cluster"} {
		refused("IDS_CALLER_PASSWORD=$2a$04$hash", "this terminal has the settings of a server", target)
	}
}

// TestOldVariablesOfMake: variables that moved a port or named a folder in 0.2.0
// are refused, because without them another folder would be served.
func TestOldVariablesOfMake(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"LISTEN", "DATA", "PORT"} {
		out, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "-n", "run", old+"=x").CombinedOutput()
		if err == nil || !strings.Contains(string(out), old+"= is gone") {
			t.Errorf("%s: %v\n%s", old, err, out)
		}
	}
}

// makeNats is a folder in which make nats runs.
type makeNats struct {
	t      *testing.T
	dir    string
	port   int
	server *process
}

func (m *makeNats) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(m.dir, name)), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

// start returns what the server logged until it was ready.
func (m *makeNats) start() (log string) {
	m.t.Helper()
	m.server = settings{binary: "make", dir: m.dir, env: []string{"IDS_CALLER_PASSWORD=\"it's secret\"", `IDS_ORDER_PASSWORD="my password"`}}.
		launch(m.t, "nats", "GO=./compiled", fmt.Sprintf("PORT_OFFSET=%d", m.port-4222))
	m.t.Cleanup(m.stop)
	natstest.Eventually(m.t, "nats-server is ready", func() bool {
		return m.server.hasEnded() || strings.Contains(m.server.stderr.String(), "Server is ready")
	})
	if m.server.hasEnded() {
		m.t.Fatalf("make nats:\n%s", m.server.stderr.String())
	}
	return m.server.stderr.String()
}

func (m *makeNats) stop() {
	text, err := os.ReadFile(filepath.Join(m.dir, "pid"))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil || m.server.hasEnded() {
		return // it did not start, or was stopped
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	natstest.Eventually(m.t, "make ends", m.server.hasEnded)
}

// login is what a terminal has after it has read a user's file.
type login struct{ url, user, password, inbox string }

// read reads the file of a user in a shell that has read another one before.
func (m *makeNats) read(user string) login {
	m.t.Helper()
	script := `. nats-data/monitor.env; . nats-data/` + user + `.env; printf '%s\n' "$NATS_URL" "$NATS_USER" "$NATS_PASSWORD" "$IDWORKER_INBOX_PREFIX"`
	cmd := exec.CommandContext(m.t.Context(), "sh", "-ec", script)
	cmd.Dir = m.dir
	out, err := cmd.Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) != 5 {
		m.t.Fatalf("%s: %v: %q", user, err, out)
	}
	return login{lines[0], lines[1], lines[2], lines[3]}
}
