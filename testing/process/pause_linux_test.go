package process_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// cpuTime returns a process's CPU time so far, in the kernel's ticks.
func cpuTime(t *testing.T, pid int) (ticks int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks
}

// TestPause: a busy process uses no CPU time when Pause has returned, and does
// again when it is resumed.
func TestPause(t *testing.T) {
	p, err := process.Program{Binary: "/bin/sh"}.Launch("-c", "while :; do :; done")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	pid := p.Cmd.Process.Pid
	for range 20 {
		before := cpuTime(t, pid)
		natstest.Eventually(t, "it runs", func() bool { return cpuTime(t, pid) > before })
		p.Pause()
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || !strings.Contains(string(stat), ") T ") {
			t.Fatalf("after Pause: %s, %v", stat, err)
		}
		p.Resume()
	}
	p.Kill()
	p.Pause() // nothing to wait for
}
