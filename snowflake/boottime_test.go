package snowflake

import (
	"runtime"
	"testing"
	"time"
)

// TestBootTime: the clock exists on Linux, runs, and costs no memory.
func TestBootTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no such clock")
	}
	before, ok := bootTime()
	began := time.Now()
	// By the monotonic clock, which is no faster.
	for time.Since(began) < time.Millisecond {
		if _, ok := bootTime(); !ok {
			t.Fatal("the clock cannot be read")
		}
	}
	after, _ := bootTime()
	if !ok || after-before < int64(time.Millisecond) {
		t.Errorf("%d ns passed in more than a millisecond", after-before)
	}
	if n := testing.AllocsPerRun(100, func() { bootTime() }); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}

func BenchmarkBootTime(b *testing.B) {
	for b.Loop() {
		bootTime()
	}
}
