package e2e

import (
	"cmp"
	"slices"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// checkDistinct fails the test if an ID is in two ranges, and returns how many IDs
// there are. It covers every ID: sorted ranges that do not overlap share none.
func checkDistinct(t testing.TB, ranges []messages.Range) (ids int64) {
	t.Helper()
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
	var before messages.Range
	twice := 0
	for _, r := range sorted {
		ids += r.Len()
		if r.First <= before.Last {
			if twice++; twice <= 3 {
				t.Errorf("DUPLICATE: %s and %s", before, r)
			}
		}
		if r.Last > before.Last {
			before = r
		}
	}
	if twice > 0 {
		t.Errorf("DUPLICATE: %d of %d ranges begin within another", twice, len(ranges))
	}
	return ids
}

// checkLives fails the test unless every reply was made in one life of a worker ID, in time
// that was reserved, and the IDs of each life went up. It returns in how many lives IDs
// were made.
func checkLives(t testing.TB, l *lives, replies []reply) int {
	t.Helper()
	l.settle(t)
	groups := make(map[string][]reply)
	for _, r := range replies {
		maker, ok := l.maker(r.first())
		for _, ids := range r.ranges {
			for _, id := range []int64{ids.First, ids.Last} {
				if who, reserved := l.maker(id); !ok || !reserved || who.hold != maker.hold {
					t.Errorf("FOREIGN TIME: %d of %v, worker ID %d at %d, was made by %q, the beginning by %q", id, r.ranges,
						l.layout.WorkerID(snowflake.ID(id)), l.layout.Timestamp(snowflake.ID(id)), who.hold, maker.hold)
					return 0 // one shows it
				}
			}
		}
		groups[maker.hold] = append(groups[maker.hold], r)
	}
	for hold, list := range groups {
		checkAscending(t, served{hold, "snowflake"}, list)
	}
	return len(groups)
}

// rangesOfAll are the ranges of all replies.
func rangesOfAll(replies []reply) (ranges []messages.Range) {
	for _, r := range replies {
		ranges = append(ranges, r.ranges...)
	}
	return ranges
}
