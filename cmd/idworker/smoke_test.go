package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// asProgram makes the test's program idworker itself.
const asProgram = "SMOKE_TEST_AS_IDWORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is idworker as a process of its own, without the settings of who runs
// the tests.
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

// printed is what a process has printed so far.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(data)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// TestSmoke: the program serves with a NATS server of its own, gives IDs that
// ascend, ends when it is told to, and after a restart gives none of them again.
func TestSmoke(t *testing.T) {
	t.Parallel()
	address, data := "127.0.0.1:"+strconv.Itoa(freeport.Get(t)), t.TempDir()
	server := "nats://" + address
	// eventually runs a command until it succeeds: what serves may be slow.
	eventually := func(args ...string) (stdout string) {
		t.Helper()
		natstest.Eventually(t, strings.Join(args, " "), func() bool {
			out, err := program(t, append(args, "--server", server)...).Output()
			stdout = string(out)
			return err == nil
		})
		return stdout
	}
	given := make(map[int64]bool)
	for range 2 {
		var log printed
		serve := program(t, "serve", "--listen", address, "--data", data)
		serve.Stdout, serve.Stderr = &log, &log
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
		eventually("tag", "create", "order", "--if-missing")
		for range 2 {
			last := int64(0)
			for line := range strings.Lines(eventually("get", "order", "50")) {
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
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "its end", func() bool { return len(ended) > 0 })
		if err := <-ended; err != nil {
			t.Logf("%v; it said\n%s", err, log.String()) // what it could not give back in time expires
		}
	}
	if len(given) != 2*2*50 {
		t.Errorf("%d IDs, want %d", len(given), 2*2*50)
	}
}
