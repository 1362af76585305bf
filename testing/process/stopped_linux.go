package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stopsWithin is far longer than a thread may stay in the kernel before it
// stops.
const stopsWithin = 2 * time.Minute

// AwaitStopped returns when no thread of a process that was sent SIGSTOP runs
// any more, or the process is gone.
func AwaitStopped(pid int) {
	for deadline := time.Now().Add(stopsWithin); !isStopped(pid) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// isStopped reports whether all threads of a process are stopped or have ended.
func isStopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // fails only for a bad pattern
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // this thread has just ended
		}
		if state := threadState(stat); !strings.ContainsRune("TtZX", state) {
			return false
		}
	}
	return true
}

// threadState is the letter behind the name of the program, which may contain
// anything.
func threadState(stat []byte) rune {
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if len(rest) == 0 {
		return ' '
	}
	return rune(rest[0])
}
