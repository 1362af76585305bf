package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// asProgram makes the test's program run as idworker.
const asProgram = "SMOKE_TEST_AS_IDWORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	// Commands in this process share their environment, and no folder.
	if err := os.Setenv("STATE_DIRECTORY", process.NoFolder); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// program is idworker in a process of its own, without the environment of the
// test.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = []string{asProgram + "=1", "HOME=" + t.TempDir()}
	return cmd
}

// TestSmoke: the program serves with its own NATS server, issues ascending IDs,
// ends on a signal, and repeats none of them after a restart.
func TestSmoke(t *testing.T) {
	t.Parallel()
	address, data := "127.0.0.1:"+strconv.Itoa(freeport.Get(t)), t.TempDir()
	server := "nats://" + address
	// eventually runs a command until it succeeds. It shows the output even if
	// the command fails until the end.
	eventually := func(see func(stdout string), args ...string) {
		t.Helper()
		natstest.Eventually(t, strings.Join(args, " "), func() bool {
			out, err := program(t, append(args, "--server", server)...).Output()
			see(string(out))
			if exit := new(exec.ExitError); errors.As(err, &exit) {
				mustBeSound(t, string(exit.Stderr))
			}
			return err == nil
		})
	}
	given := make(map[int64]bool)
	see := func(stdout string) {
		last := int64(0)
		for line := range strings.Lines(stdout) {
			id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err != nil || id <= last {
				t.Fatalf("line %q after ID %d: %v", line, last, err)
			}
			if given[id] {
				t.Errorf("DUPLICATE: %d", id)
			}
			given[id], last = true, id
		}
	}
	for range 2 {
		var log process.Text
		serve := program(t, "serve", "--listen", address, "--data", data)
		serve.Stdout, serve.Stderr = &log, &log
		states := notified(t, serve)
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- serve.Wait() }()
		natstest.Eventually(t, "serving", func() bool {
			if len(ended) > 0 {
				t.Fatalf("it ended:\n%s", log.String())
			}
			return strings.Contains(log.String(), "serving")
		})
		natstest.Eventually(t, "READY=1", func() bool { return len(states) > 0 })
		if got := <-states; got != "READY=1" {
			t.Errorf("systemd was notified of %q, want READY=1", got)
		}
		eventually(func(string) {}, "tag", "create", "order", "--if-missing")
		for range 2 {
			got := 0
			eventually(func(stdout string) { see(stdout); got = strings.Count(stdout, "\n") }, "get", "order", "50")
			if got != 50 {
				t.Errorf("%d IDs, want 50", got)
			}
		}
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "its end", func() bool { return len(ended) > 0 })
		if err := <-ended; err != nil {
			t.Log(err) // the exit code is checked below
		}
		// A lease that was not released in time expires.
		code := serve.ProcessState.ExitCode()
		if code != exitOK && code != exitTryLater {
			t.Errorf("it ended with %v; it said\n%s", serve.ProcessState, log.String())
		}
		natstest.Eventually(t, "STOPPING=1", func() bool { return len(states) > 0 })
		if got := <-states; got != "STOPPING=1" {
			t.Errorf("systemd was notified of %q, want STOPPING=1", got)
		}
		mustBeSound(t, log.String())
	}
}

// notified returns the states of which a program notifies systemd.
func notified(t *testing.T, cmd *exec.Cmd) <-chan string {
	t.Helper()
	address := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(t.TempDir(), "notify")}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+address.Name)
	states := make(chan string, 2)
	go func() {
		defer close(states)
		for buf := make([]byte, 100); ; {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			states <- string(buf[:n])
		}
	}()
	return states
}

// mustBeSound fails the test if a process has reported a broken promise.
func mustBeSound(t *testing.T, said string) {
	t.Helper()
	for _, bad := range []string{"DATA RACE", "panic:"} {
		if strings.Contains(said, bad) {
			t.Errorf("%s in what it said:\n%s", bad, said)
		}
	}
}
