package natstest

import (
	"testing"
	"time"
)

// pollEvery is short compared to what tests wait for, and long compared to what checking a
// condition costs.
const pollEvery = 5 * time.Millisecond

// Patience is for waits that are there to find hangs: far beyond what a busy machine needs. What a
// promise bounds is waited for as long as the promise says.
const Patience = 2 * time.Minute

// Eventually polls cond until it holds, and fails the test, naming what was waited
// for, if it does not within timeout. Call it from the test's own goroutine.
func Eventually(t testing.TB, timeout time.Duration, what string, cond func() bool) {
	t.Helper()
	if !poll(timeout, cond) {
		t.Fatalf("after %v still waiting for: %s", timeout, what)
	}
}

// poll reports whether cond held within timeout; it asks at least once.
func poll(timeout time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(timeout)
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pollEvery)
	}
	return true
}
