// Package tier selects the tests to run. The Makefile's targets set two
// variables:
//
//	make test                                 packages, in memory or against a NATS server in the process
//	make test-all        IDWORKER_TESTS=all      also the real binary, databases that are killed, a browser, Node.js
//	make check-packages  IDWORKER_TESTS=release  also packages, images, old NATS servers
//	make soak            SOAK=1                  also tests of many rounds, or of minutes
//
// They are two, so that go test keeps the results of packages that do nothing
// more in a soak. Files that link a browser or containers have the build tag
// all, which make test-all, make soak and make check-packages set: the other
// targets would compile for a minute what their tests don't run.
package tier

import (
	"os"
	"testing"
)

// IsAll reports whether this is make test-all, make check-packages or make soak.
func IsAll() bool { return os.Getenv("IDWORKER_TESTS") == "all" || isRelease() || IsSoak() }

func isRelease() bool { return os.Getenv("IDWORKER_TESTS") == "release" }

// IsSoak reports whether this is make soak.
func IsSoak() bool { return os.Getenv("SOAK") != "" }

// All skips a test that make test leaves to make test-all.
func All(t testing.TB) {
	t.Helper()
	if !IsAll() {
		t.Skip("left to make test-all")
	}
}

// Soak skips a test that only make soak runs.
func Soak(t testing.TB) {
	t.Helper()
	if !IsSoak() {
		t.Skip("left to make soak")
	}
}

// Release skips a test that only make check-packages runs.
func Release(t testing.TB) {
	t.Helper()
	if !isRelease() {
		t.Skip("left to make check-packages")
	}
}

// Pick returns long in a soak, and usual otherwise.
func Pick[T any](usual, long T) T {
	if IsSoak() {
		return long
	}
	return usual
}

// Seeds is [Pick] for numbers of random runs. The race detector makes them ten times
// as slow, and shows in a few what it can show, so with it they are a fifth: make
// test makes the others without.
func Seeds(usual, long uint64) uint64 {
	if racing {
		usual /= 5
	}
	return Pick(usual, long)
}
