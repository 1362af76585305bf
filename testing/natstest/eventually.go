package natstest

import (
	"errors"
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
	if !poll(Patience, cond) {
		t.Fatalf("after %v still waiting for: %s", Patience, what)
	}
}

// ErrFinal is wrapped by errors after which [Await] does not try again.
var ErrFinal = errors.New("final")

// Await calls f until it returns no error, as long as within. It returns the
// latest error with a description of the condition. It is for goroutines other
// than a test's own.
func Await(within time.Duration, what string, f func() error) (err error) {
	poll(within, func() bool {
		err = f()
		return err == nil || errors.Is(err, ErrFinal)
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// poll reports whether cond held within a time.
func poll(within time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pollEvery)
	}
	return true
}
