package natsconn

import (
	"testing"
	"testing/synctest"
	"time"
)

// One line a second passes, and tells of those that did not.
func TestFloodgate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFloodgate()
		passed := 0
		for range 100 {
			if _, ok := f.pass(); ok {
				passed++
			}
		}
		time.Sleep(time.Second)
		suppressed, ok := f.pass()
		if passed != 1 || !ok || suppressed != 99 {
			t.Errorf("%d lines of a flood, then %v with %d suppressed; want 1, then true with 99", passed, ok, suppressed)
		}
	})
}
