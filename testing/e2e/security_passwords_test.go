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

// compiled stands for the go command in the Makefile, and runs what is compiled
// already.
const compiled = `#!/bin/sh
case "$1 $2" in
"build -o") mkdir -p bin && cp %q bin/idworker ;;
"run github.com/nats-io/nats-server/v2") shift 2; echo $$ > pid; exec %q "$@" ;;
esac
`

// TestMakeNatsHashesPasswords: the server of `make nats` has nothing to warn of,
// and its users log in with the passwords of nats-data/passwords, also one of
// an earlier version, and with those that the environment had.
func TestMakeNatsHashesPasswords(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("left out: needs make")
	}
	bin, err := natsServer()
	if err != nil {
		t.Fatalf("build nats-server: %v", err)
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Makefile", "nats.conf"} {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(data), 0o600)
	}
	if err := os.Mkdir(filepath.Join(dir, "nats-data"), 0o700); err != nil {
		t.Fatal(err)
	}
	const old = "p5c1f0a9d7e4b28365f0c9ad1e7b34268"
	write("nats-data/passwords", `export IDS_BACKUP_PASSWORD="${IDS_BACKUP_PASSWORD:-`+old+`}"`+"\n", 0o600)
	write("compiled", fmt.Sprintf(compiled, binary, bin), 0o700)

	address := freeport.Address(t)
	_, port, _ := strings.Cut(address, ":")
	server := settings{binary: "make", dir: dir, env: []string{"IDS_CALLER_PASSWORD=secret", `IDS_ORDER_PASSWORD="my password"`}}.
		launch(t, "nats", "GO=./compiled", "PORT="+port)
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || bad != nil {
			return // it did not start
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
		natstest.Eventually(t, "make ends", server.hasEnded)
	})
	natstest.Eventually(t, "nats-server is ready", func() bool {
		return server.hasEnded() || strings.Contains(server.stderr.String(), "Server is ready")
	})
	log := server.stderr.String()
	if server.hasEnded() || strings.Contains(log, "Plaintext passwords") || strings.Contains(log, old) {
		t.Fatalf("make nats:\n%s", log)
	}

	passwords := map[string]string{"backup": old, "caller": "secret", "order": "my password"}
	for _, u := range roles.Users() {
		password := passwords[u.Name]
		if password == "" {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", ". "+filepath.Join(dir, "nats-data/passwords")+"; printf %s \"$"+u.PasswordVariable()+`"`).Output()
			if err != nil {
				t.Fatal(err)
			}
			password = string(out)
		}
		if conn, err := nats.Connect("nats://"+address, nats.UserInfo(u.Name, password)); err != nil {
			t.Errorf("%s: %v", u.Name, err)
		} else {
			conn.Close()
		}
	}
}
