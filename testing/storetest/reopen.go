package storetest

import (
	"testing"

	"github.com/idworker/idworker/store"
)

// The next process continues behind all ranges handed out.
func testReopen(t *testing.T, open func() store.Store) {
	s := open()
	create(t, s, "order", 10, 1)
	first := reserve(t, s, "order", 100)
	if err := s.SetStep(patient(t), "order", 20); err != nil {
		t.Fatalf("SetStep: %v", err)
	}
	shut(t, s)

	s = open()
	expect(t, s, "order", 20, first.End)
	if seg := reserve(t, s, "order", 10); seg.First != first.End {
		t.Errorf("after reopening got %v, want a segment from %d on", seg, first.End)
	}
}
