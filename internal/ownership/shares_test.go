package ownership

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// drawShares draws who is alive, and who has which of the slots in use: some of them dead.
func drawShares(t *rapid.T) (living []leaseID, have map[int]leaseID) {
	n := rapid.IntRange(1, 40).Draw(t, "living")
	for place := range n {
		living = append(living, leaseID{place, 1 + uint64(place%3)})
	}
	have = make(map[int]leaseID)
	for _, slot := range rapid.SliceOfDistinct(rapid.IntRange(0, Slots-1), rapid.ID[int]).Draw(t, "in use") {
		if owner := rapid.IntRange(-1, n-1).Draw(t, "owner"); owner >= 0 {
			have[slot] = living[owner]
		} else {
			have[slot] = none
		}
	}
	return living, have
}

func shareOf(living []leaseID, have map[int]leaseID) plan {
	inUse := func(slot int) bool { _, found := have[slot]; return found }
	return share(living, inUse, func(slot int) leaseID { return have[slot] })
}

// TestShare: everybody has as many slots as everybody else, or one more, and no slot moves without need.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		living, have := drawShares(t)
		p := shareOf(living, have)
		count, had, kept := make(map[leaseID]int), make(map[leaseID]int), make(map[leaseID]int)
		for slot, l := range p {
			owner, used := have[slot]
			if used != (l != none) {
				t.Fatalf("slot %d is in use: %v, and goes to %v", slot, used, l)
			}
			if used {
				count[l]++
				had[owner]++
				if owner == l {
					kept[l]++
				}
			}
		}
		for _, l := range living {
			if each := len(have) / len(living); count[l] < each || count[l] > each+1 {
				t.Fatalf("%v gets %d of %d slots among %d", l, count[l], len(have), len(living))
			}
			if kept[l] != min(had[l], count[l]) {
				t.Fatalf("%v has %d, gets %d and keeps %d", l, had[l], count[l], kept[l])
			}
		}
	})
}

// TestShareStays: once a part of a plan is carried out, the rest is still planned as it was. So
// processes that have not read equally far do not get in each other's way.
func TestShareStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		living, have := drawShares(t)
		before := shareOf(living, have)
		for slot := range have {
			if rapid.Bool().Draw(t, "done") {
				have[slot] = before[slot]
			}
		}
		if after := shareOf(living, have); after != before {
			t.Fatalf("was %v, is %v", before, after)
		}
	})
}

// TestRank: each of the living has a place of its own in each line.
func TestRank(t *testing.T) {
	living := []leaseID{{0, 9}, {1, 1}, {2, 3}, {7, 1}}
	first := make(map[leaseID]int)
	for key := range 400 {
		seen := make(map[int]bool)
		for _, l := range living {
			r := rank(living, l, none, key)
			if seen[r] || r >= len(living) {
				t.Fatalf("line %d has two at place %d", key, r)
			}
			if seen[r] = true; r == 0 {
				first[l]++
			}
		}
	}
	for _, l := range living {
		if first[l] < 60 || first[l] > 140 {
			t.Errorf("%v is first in %d of 400 lines", l, first[l])
		}
	}
}

// TestSlot: the slots of tags are the same for ever, and evenly used.
func TestSlot(t *testing.T) {
	for tag, want := range map[string]int{"": 197, "orders": 22, "chat.1": 97, "invoice.20261121": 125} {
		if got := Slot(tag); got != want {
			t.Errorf("the slot of %q is %d, want %d", tag, got, want)
		}
	}
	var tags [Slots]int
	for n := range 1000 * Slots {
		tags[Slot(fmt.Sprintf("chat.%d", n))]++
	}
	for slot, n := range tags {
		if n < 800 || n > 1200 {
			t.Errorf("slot %d has %d tags of %d", slot, n, 1000*Slots)
		}
	}
}
