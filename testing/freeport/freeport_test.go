package freeport

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestNobodyElseGetsThePort(t *testing.T) {
	seen := make(map[int]bool)
	for range 500 {
		port := Get(t)
		if seen[port] {
			t.Fatalf("port %d twice", port)
		}
		seen[port] = true
	}
}

func TestPortIsFreeAgainAfterItsTest(t *testing.T) {
	var port int
	t.Run("first", func(t *testing.T) { port = Get(t) })
	if held.ports[port] {
		t.Errorf("port %d is still held", port)
	}
}

// TestOtherProcessesRespectTheLock runs this test once more, in a process that
// tries to lock a port which is held here.
func TestOtherProcessesRespectTheLock(t *testing.T) {
	const variable = "FREEPORT_TEST_TRY"
	if try := os.Getenv(variable); try != "" {
		if err := open(); err != nil {
			t.Fatal(err)
		}
		var port int
		_, _ = fmt.Sscan(try, &port)
		fmt.Println("locked:", lock(port, syscall.F_WRLCK) == nil)
		return
	}
	port := Get(t)
	try := func() string {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestOtherProcessesRespectTheLock$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, port))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := try(); !strings.Contains(out, "locked: false") {
		t.Errorf("another process locks the port too:\n%s", out)
	}
	release(port)
	if out := try(); !strings.Contains(out, "locked: true") {
		t.Errorf("nobody can lock the port that was released:\n%s", out)
	}
}

func TestTakenPortIsNotFree(t *testing.T) {
	l, err := Listen(Get(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if isFree(l.Addr().(*net.TCPAddr).Port) {
		t.Error("a port is free on which somebody listens")
	}
}

// TestForkedChildrenDoNotKeepAPort starts processes while ports are looked for
// and opened.
func TestForkedChildrenDoNotKeepAPort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var forking sync.WaitGroup
	defer forking.Wait()
	defer cancel()
	for range 4 {
		forking.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command("true").Run()
			}
		})
	}
	for range 300 {
		port := Get(t)
		for range 3 {
			l, err := Listen(port)
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
	}
}
