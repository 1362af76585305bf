package allocator

import (
	"testing"
	"time"

	"github.com/idworker/idworker/store"
)

// TestLevel: the rule, at figures that each decide it. The tag has handed out as
// many IDs as its totals say, at minutes before now.
func TestLevel(t *testing.T) {
	t.Parallel()
	const step, ceiling = 100, 1_000_000
	type totals [5]int64 // at the samples 0 to 3, and now
	even := [4]int64{4, 3, 2, 1}
	for _, c := range []struct {
		why    string
		ago    [4]int64 // minutes
		totals totals
		parked int64
		want   int64
	}{
		{"no use", even, totals{9, 9, 9, 9, 9}, 0, step},
		{"as many as since the first sample", [4]int64{1, 1, 1, 1}, totals{0, 0, 0, 0, 5000}, 0, 5000},
		{"parked requests, too", [4]int64{1, 1, 1, 1}, totals{0, 0, 0, 0, 5000}, 700, 5700},
		{"a rate that has lasted", even, totals{0, 1000, 2000, 3000, 4000}, 0, 32 * 1000},
		{"a burst in the first period", even, totals{0, 4000, 4000, 4000, 4000}, 0, 4000},
		{"a burst in the last period", even, totals{0, 0, 0, 0, 4000}, 0, 4000},
		{"a burst in between", even, totals{0, 0, 4000, 4000, 4000}, 0, 4000},
		{"half of the mean in the first period", even, totals{0, 500, 1500, 2700, 4000}, 0, 32 * 1000},
		{"a quarter", even, totals{0, 250, 1500, 2700, 4000}, 0, 32 * 500},
		{"half of the mean in the last period", even, totals{0, 1500, 3000, 3600, 4000}, 0, 32 * 1000},
		{"a quarter", even, totals{0, 1500, 3500, 3900, 4000}, 0, 32 * 500},
		{"old samples", [4]int64{320, 240, 160, 80}, totals{0, 0, 0, 0, 80_000}, 0, 32 * 1000},
		{"two ceilings at most", even, totals{0, 1e6, 2e6, 3e6, 4e6}, 0, 2 * ceiling},
	} {
		now := 24 * time.Hour
		tag := &tag{name: "order", order: store.Trend, configured: step}
		tag.cur.Store(&empty)
		tag.lock()
		tag.busy.demand = c.parked
		tag.meter.spent = c.totals[4]
		for i, ago := range c.ago {
			tag.meter.samples[i] = sample{now - time.Duration(ago)*time.Minute, c.totals[i]}
		}
		if got := tag.level(now, ceiling); got != c.want {
			t.Errorf("%s: %v at %v minutes ago: level %d, want %d", c.why, c.totals, c.ago, got, c.want)
		}
	}
}
