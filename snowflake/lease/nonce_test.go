package lease

import "testing"

// TestNonce: nonces have 128 bits, in text, and no two are the same.
func TestNonce(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		n := newNonce()
		if len(n) != 32 || seen[n] {
			t.Fatalf("%q, after %d others", n, len(seen))
		}
		seen[n] = true
	}
}
