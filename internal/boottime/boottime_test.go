package boottime

import (
	"runtime"
	"testing"
	"time"
)

// TestRead: the clock exists on Linux, runs, and costs no memory.
func TestRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no such clock")
	}
	before, ok := read()
	began := time.Now()
	// By the monotonic clock, which is no faster.
	for time.Since(began) < time.Millisecond {
		if _, ok := read(); !ok {
			t.Fatal("the clock cannot be read")
		}
	}
	after, _ := read()
	if !ok || after-before < int64(time.Millisecond) {
		t.Errorf("%d ns passed in more than a millisecond", after-before)
	}
	if n := testing.AllocsPerRun(100, func() { read() }); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		read()
	}
}

// TestClock: the clock is never behind the monotonic clock.
func TestClock(t *testing.T) {
	now, began := Clock(), time.Now()
	before := now()
	for range 1000 {
		passed := time.Since(began)
		after := now()
		if after.Sub(began) < passed || after.Before(before) {
			t.Fatalf("%v passed, the clock went from %v to %v", passed, before, after)
		}
		before = after
	}
}
