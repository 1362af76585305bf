package natstest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// pollEvery is short compared to a test's waits, and long compared to the cost
// of checking a condition.
const pollEvery = 5 * time.Millisecond

// Patience bounds all waits in tests. It finds hangs: no machine on which the
// tests make sense is that slow. Benchmarks, not tests, measure speed.
//
// The variable IDWORKER_PATIENCE sets another bound, for people who look for a
// hang.
var Patience = patience()

func patience() time.Duration {
	text := os.Getenv("IDWORKER_PATIENCE")
	if text == "" {
		return 4 * time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "IDWORKER_PATIENCE: %v\n", err)
		os.Exit(2)
	}
	return d
}

// Eventually polls cond until it holds. If it never does, it fails the test
// with a description of the condition. Call it from the test's own goroutine.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !poll(cond) {
		t.Fatalf("after %v still waiting for: %s", Patience, what)
	}
}

// poll reports whether cond held within Patience.
func poll(cond func() bool) bool {
	deadline := time.Now().Add(Patience)
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pollEvery)
	}
	return true
}
