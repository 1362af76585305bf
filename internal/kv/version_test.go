package kv

import "testing"

// TestTooOld: versions before 2.10 are too old, but no version that cannot be
// read.
func TestTooOld(t *testing.T) {
	for _, version := range []string{"1.4.1", "2.2.0", "2.9.25", "2.9.25-RC.1"} {
		if !tooOld(version) {
			t.Errorf("%q is accepted", version)
		}
	}
	for _, version := range []string{"2.10.0", "2.10.0-beta.1", "2.15.2", "3.0.0", "", "dev"} {
		if tooOld(version) {
			t.Errorf("%q is refused", version)
		}
	}
}
