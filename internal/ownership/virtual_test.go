package ownership

import (
	"testing"
	"testing/synctest"
	"time"
)

const term = DefaultLeaseTime

// TestFirstUse: a slot that is asked for is owned a moment later, and others know by whom.
func TestFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a, b := join(t, s, "a", 1), join(t, s, "b", 1)
		if _, known := a.Owner(7); known || a.answers(7) {
			t.Error("a slot that nobody asked for has an owner")
		}
		b.takes(t, 7)
		until(t, time.Second, "a knows", func() bool { owner, _ := a.Owner(7); return owner == "b" })
		if !b.answers(7) || a.answers(7) {
			t.Errorf("a answers: %v, b answers: %v", a.answers(7), b.answers(7))
		}
	})
}

// TestKilled: the slots of a process that died are answered for again within T and a second.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a, b, c := join(t, s, "a", 1), join(t, s, "b", 1), join(t, s, "c", 1)
		a.takes(t, 1, 2, 3, 4)
		a.kill()
		took := until(t, term+time.Second, "others answer", func() bool {
			n := 0
			for slot := 1; slot <= 4; slot++ {
				if b.answers(slot) || c.answers(slot) {
					n++
				}
			}
			return n == 4
		})
		t.Log("answered for again after", took)
	})
}
