package conformance

import (
	"slices"
	"testing"
)

var clockCases = []testCase{
	{name: "02 waits after silence", run: waits(
		[]string{"silent", "silent", "silent", "silent", "silent", "silent", "silent", "ids"},
		50, 50, 100, 200, 250, 250, 250)},
	{name: "02 waits after refusals", run: waits(
		[]string{"unavailable", "busy", "no_responders", "unavailable", "busy", "no_responders", "unavailable", "busy", "ids"},
		50, 50, 100, 200, 400, 800, 1000, 1000)},
	{name: "02 waits after both in turn", run: waits(
		[]string{"silent", "unavailable", "silent", "no_responders", "ids"},
		50, 50, 100, 200)},
	// A try waits as long as the outcome of the one before it requires.
	{name: "02 waits when a refusal ends a long silence", run: waits(
		[]string{"silent", "silent", "silent", "silent", "silent", "silent", "silent", "unavailable", "silent", "silent", "ids"},
		50, 50, 100, 200, 250, 250, 250, 250, 1000, 250)},
	{name: "02 waits while the connection is lost", run: waits(
		[]string{"disconnected", "disconnected", "disconnected", "unavailable", "unavailable", "disconnected", "disconnected", "unavailable", "ids"},
		50, 50, 50, 50, 100, 200, 200, 200)},
	{name: "02 the pace of a prefetcher", run: targets},
}

// waits returns a case: a call that meets events waits at least half as long as
// these bounds, in ms, and at most as long; the first try is silent for exactly
// so long.
func waits(events []string, bounds ...float64) func(t *testing.T, d *driver) {
	return func(t *testing.T, d *driver) {
		got := d.must(t, op{"op": "schedule", "events": events}).Waits
		if len(got) != len(bounds) {
			t.Fatalf("%v: %v, want %d waits", events, got, len(bounds))
		}
		for i, bound := range bounds {
			const rounding = 1
			shortest, longest := got[i][0], got[i][1]
			least := bound / 2
			if i == 0 && events[0] == "silent" {
				least = bound
			}
			tenth := (bound - least) / 5 // of a random choice from half to all
			if shortest < least-rounding || shortest > least+tenth+rounding || longest > bound+rounding || longest < bound-tenth-rounding {
				t.Errorf("wait %d of %v: %v to %v ms, want %v to %v", i, events, shortest, longest, least, bound)
			}
		}
	}
}

// targets: the target doubles and halves at most; it grows at once, and shrinks
// after a runway.
func targets(t *testing.T, d *driver) {
	// From 1 up by doubling, then to a number by the rate of a second.
	up := func(doublings int, taken int64) (steps [][2]int64) {
		for range doublings {
			steps = append(steps, [2]int64{1, 1_000_000})
		}
		return append(steps, [2]int64{1000, taken})
	}
	hundred, thousand := up(6, 50), up(9, 500)
	const hour = 3_600_000
	for _, c := range []struct {
		why    string
		runway int64
		before [][2]int64
		steps  [][2]int64
		want   []int64
	}{
		{"no time passes", 1000, hundred, [][2]int64{{0, 50}}, []int64{100}},
		{"grows at once", 1000, hundred, [][2]int64{{10, 50}}, []int64{200}},
		{"grows to what is needed", 1000, hundred, [][2]int64{{1000, 75}}, []int64{150}},
		{"no further than the limit", 1000, up(9, 400), [][2]int64{{1, 900}}, []int64{1000}},
		{"settled", 1000, hundred, [][2]int64{{1000, 50}, {1000, 50}}, []int64{100, 100}},
		{"a pause says nothing", 1000, hundred, [][2]int64{{999, 0}}, []int64{100}},
		{"shrinks by half", 1000, hundred, [][2]int64{{hour, 1}}, []int64{50}},
		{"shrinks to what is needed", 1000, hundred, [][2]int64{{1000, 40}}, []int64{80}},
		{"half of an odd number is rounded up", 1000, up(3, 5), [][2]int64{{2000, 9}, {2000, 0}}, []int64{9, 5}},
		{"shrinks to 1, and stays there", 1000, up(0, 1), [][2]int64{{hour, 0}, {hour, 0}}, []int64{1, 1}},
		{"a day of a billion a second", 1000, thousand, [][2]int64{{24 * hour, 86_400_000_000_000}}, []int64{1000}},
		{"measures since the last change", 1000, nil, [][2]int64{{100, 100}, {100, 100}, {600, 1}, {400, 0}}, []int64{2, 4, 4, 2}},
		{"IDs taken while no time passes count later", 1000, hundred, [][2]int64{{0, 50}, {1000, 0}}, []int64{100, 100}},
		{"a runway of an hour acts as one of 10 s", hour, up(4, 0), [][2]int64{{1000, 16}, {9000, 4}}, []int64{32, 32}},
		{"a shorter runway", 100, nil, [][2]int64{{1, 10}, {1, 10}, {10, 20}, {100, 2}}, []int64{2, 4, 8, 4}},
	} {
		steps := slices.Concat(c.before, c.steps)
		got := d.must(t, op{"op": "pace", "runway_ms": c.runway, "limit": 1000, "steps": steps}).Targets
		if len(got) != len(steps) || !slices.Equal(got[len(c.before):], c.want) {
			t.Errorf("%s: steps %v, targets %v; want %v at the end", c.why, steps, got, c.want)
		}
	}
}
