package main

import (
	nethttp "net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// serving is a program that serves.
type serving struct {
	t   *testing.T
	cmd *exec.Cmd
	log *process.Text
	end chan error
}

// startServing runs idworker serve with an environment, until it serves or ends.
func startServing(t *testing.T, env []string, args ...string) *serving {
	t.Helper()
	s := &serving{t, program(t, append([]string{"serve"}, args...)...), new(process.Text), make(chan error, 1)}
	s.cmd.Env = append(env, asProgram+"=1")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.end <- s.cmd.Wait() }()
	natstest.Eventually(t, "it serves or ends", func() bool {
		return len(s.end) > 0 || strings.Contains(s.log.String(), "\tserving\t")
	})
	return s
}

// stop stops it, and checks that it served.
func (s *serving) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := <-s.end; err != nil || !strings.Contains(s.log.String(), "\tserving\t") {
		s.t.Errorf("serve: %v\n%s", err, s.log.String())
	}
}

// TestWitnessByDefault: each loader has a witness in the user's state folder.
// Once the installation is gone, no command makes another one beside it without
// --new, and afterwards none refuses.
func TestWitnessByDefault(t *testing.T) {
	t.Parallel()
	ns, home := natstest.Start(t), t.TempDir()
	env, js := []string{"HOME=" + home}, natstest.JetStream(t, ns.Connect(t))
	serve := func(flags ...string) *serving {
		t.Helper()
		return startServing(t, env, append(flags, "--server", ns.URL())...)
	}
	files := func() []string {
		found, _ := filepath.Glob(filepath.Join(home, ".local/state/idworker/*/ids.*.witness"))
		return found
	}
	one := serve()
	two := serve("--role", "loader")
	if all := files(); len(all) != 2 || !strings.HasSuffix(all[0], ".1.witness") || !strings.HasSuffix(all[1], ".2.witness") {
		t.Errorf("witnesses %v\n%s", all, one.log)
	}
	two.stop()
	one.stop()
	lose := func() {
		t.Helper()
		for name := range js.StreamNames(t.Context()).Name() {
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, prefix := range []string{"other", "third"} {
		lose()
		for _, args := range []string{"provision", "provision --part ids", "provision --part snowflake", "serve", "serve --role worker"} {
			cmd := program(t, append(strings.Fields(args), "--server", ns.URL())...)
			cmd.Env = append(slices.Clone(env), asProgram+"=1")
			out, err := cmd.CombinedOutput()
			for _, said := range []string{"NATS has no installation of prefix ids", "idworker restore DIR", "add --new", files()[0][:len(home)]} {
				if err == nil || !strings.Contains(string(out), said) {
					t.Fatalf("%s: %v, not %q:\n%s", args, err, said, out)
				}
			}
		}
		for name := range js.StreamNames(t.Context()).Name() {
			t.Errorf("%s was made", name)
		}
		serve("--prefix", prefix).stop() // another installation
		serve("--new").stop()
		serve().stop()
	}
	if all := files(); len(all) != 4 {
		t.Errorf("witnesses %v", all)
	}
	if log := serve("--role", "worker").log.String(); strings.Contains(log, "another installation was here before") {
		t.Errorf("it still warns:\n%s", log)
	}
}

// TestContradictedStart: a loader that finds at its start that the register went
// back stays up, is not ready, logs which command decides, and grants after that.
func TestContradictedStart(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	env, http := []string{"HOME=" + t.TempDir()}, freeport.Address(t)
	serve := func() *serving {
		t.Helper()
		return startServing(t, env, "--server", s.url, "--role", "loader", "--http", http)
	}
	loader := serve()
	s.serve("--role", "worker")
	s.must("tag create order --step 10")
	s.answered("get order")
	older := natstest.TakeSnapshot(t, js.Conn(), "KV_ids_register")
	var last int64
	for at := registerAt(t, js); registerAt(t, js) == at; {
		ids := s.ids(s.answered("get order 500").stdout)
		last = ids[len(ids)-1]
	}
	loader.stop()
	s.stop()
	older.Restore(t, js.Conn())
	loader = serve()
	ready := func() int {
		t.Helper()
		response, err := nethttp.Get("http://" + http + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if code := ready(); code != nethttp.StatusServiceUnavailable {
		t.Errorf("readyz: %d", code)
	}
	const says = "granting nothing until an administrator decides"
	line := loader.log.String()
	if _, after, found := strings.Cut(line, says); !found || !strings.Contains(after, "idworker tag raise --all") {
		t.Errorf("the log has no command that decides:\n%s", line)
	}
	s.must("tag raise --all --yes")
	s.serve("--role", "worker")
	if ids := s.ids(s.answered("get order").stdout); ids[0] <= last {
		t.Errorf("DUPLICATE: %d after %d", ids[0], last)
	}
	natstest.Eventually(t, "the loader is ready", func() bool { return ready() == nethttp.StatusOK })
	loader.stop()
}

// TestNoPlaceForAWitness: without a home, or in one that is read-only, a loader
// serves without a witness, and logs why.
func TestNoPlaceForAWitness(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	for _, env := range [][]string{nil, {"HOME=/proc"}, {"STATE_DIRECTORY=" + process.NoFolder}} {
		s := startServing(t, env, "--server", ns.URL())
		if log := s.log.String(); !strings.Contains(log, "\tinfo\tno witness\t") {
			t.Errorf("%v: it does not log that it has no witness:\n%s", env, log)
		}
		s.stop()
	}
}

// TestUnsyncedBirth: servers that are known to lose writes in a power failure get
// no first loader without a witness. One that exists goes on.
func TestUnsyncedBirth(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	answer := s.nats.Connect(t)
	_, err := answer.Subscribe(durability.AskServers, func(msg *nats.Msg) {
		_ = msg.Respond([]byte(`{"data":{"config":{"sync_always":false,"store_dir":"/there/is/none"}}}`))
	})
	if err == nil {
		err = answer.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := s.at("serve")
	if r.code != exitFailure || !strings.Contains(r.stderr, "sync_interval is not always, and there would be no witness") || !strings.Contains(r.stderr, "--allow-unsynced") {
		t.Errorf("without a witness: %+v", r)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("%s was made", name)
	}
	s.serve("--allow-unsynced")
	s.answered("get --snowflake")
	s.stop()
	s.serve()
	s.answered("get --snowflake")
	if found := s.at("doctor").stdout; !strings.Contains(found, "no witness that counts") {
		t.Errorf("doctor:\n%s", found)
	}
}
