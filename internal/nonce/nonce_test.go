package nonce_test

import (
	"testing"

	"github.com/idworker/idworker/internal/nonce"
)

// TestNew: numbers are of 128 bits, in text, and no two are the same.
func TestNew(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		n := nonce.New()
		if len(n) != 32 || seen[n] {
			t.Fatalf("%q, after %d others", n, len(seen))
		}
		seen[n] = true
	}
}
