package boottime_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/boottime"
)

// TestNow: the clock is there on Linux, runs, and costs no memory.
func TestNow(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no such clock")
	}
	before, ok := boottime.Now()
	began := time.Now()
	for time.Since(began) < time.Millisecond { // by the monotonic clock, which is no faster
		if _, ok := boottime.Now(); !ok {
			t.Fatal("the clock cannot be read")
		}
	}
	after, _ := boottime.Now()
	if !ok || after-before < int64(time.Millisecond) {
		t.Errorf("%d ns passed in more than a millisecond", after-before)
	}
	if n := testing.AllocsPerRun(100, func() { boottime.Now() }); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		boottime.Now()
	}
}
