package lease

import "testing"

// TestFormatOf020: leases and fences of version 0.2.0 are read, and written the
// same.
func TestFormatOf020(t *testing.T) {
	const value = `{"hold":"h","instance":"i","host":"a","since":"2026-11-25T09:00:00Z","clock":1795597200000,` +
		`"layout":"41:1ms/w10/s12@1735689600000","write":"w","seq":7,"ttl":30000,"installation":"n"}`
	if v, err := decodeLease(bucketEntry{value: []byte(value)}); err != nil || string(encode(v)) != value {
		t.Errorf("lease written as %s, %v, want %s", encode(v), err, value)
	}
	const fence = `{"hi":59907600000,"hold":"h","write":"w"}`
	if v, err := decodeClock(bucketEntry{value: []byte(fence)}); err != nil || string(encode(v)) != fence {
		t.Errorf("fence written as %s, %v, want %s", encode(v), err, fence)
	}
}

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
