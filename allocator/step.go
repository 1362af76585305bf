package allocator

import "time"

// A tag that reserves many numbers ahead outlives a long outage of the store,
// but a restart loses them, and a burst looks like a rate that has just begun.
// So a rate counts only once it has lasted for some minutes. Before that, a tag
// reserves as many numbers as it has used. docs/decisions.md has the
// arithmetic.
//
// This amount is the tag's level. A load begins when less than half of the
// level is buffered, and fills the buffer up to it.

// fullRunway is the time that a full buffer lasts at a rate that has lasted.
// With half of it left, a buffer still lasts for 13 minutes or more: the
// measured rate may be some per cent too low, and some per cent are used before
// the tag is checked again.
const fullRunway = 32 * time.Minute

// The methods below need mu.

// level is the number of IDs in a full buffer, the largest of
//
//   - the configured step, so that a tag with few requests seldom loads;
//   - the IDs since each sample of the meter, so that a burst of n IDs reserves
//     n more. If the sample is older than fullRunway, only as many count as
//     were used in that time on average;
//   - fullRunway of the rate that has lasted.
//
// The rate since sample 0 has lasted if half of it or more was there both
// between the samples 0 and 1 and since sample 2. Otherwise twice the lower of
// these two has lasted. They are at least sampleTime apart, so a shorter burst
// is in one of them only.
//
// Parked requests count as if they were answered. The level is at most twice
// the ceiling of a load.
func (t *tag) level(now time.Duration, ceiling int64) int64 {
	before, s := &t.meter.samples, sample{now, t.total() + t.busy.demand}
	lasted := min(s.rateSince(before[0]), 2*before[1].rateSince(before[0]), 2*s.rateSince(before[2]))
	level := max(float64(min(t.configured, ceiling)), lasted*fullRunway.Seconds())
	for _, b := range before {
		ids, part := float64(s.total-b.total), fullRunway.Seconds()/(now-b.at).Seconds()
		level = max(level, ids*min(1, part))
	}
	return int64(min(level, 2*float64(ceiling)))
}

// isLow reports whether less than half of the level is buffered, and there is
// room for another segment.
func (t *tag) isLow(now time.Duration, ceiling int64) bool {
	return len(t.busy.ready) < maxReady && t.available() < (t.level(now, ceiling)+1)/2
}

// chooseStep is the step of a load that fills the buffer and serves the parked
// requests: at least the configured step, at most ceiling.
func (t *tag) chooseStep(now time.Duration, ceiling int64) int64 {
	fill := t.level(now, ceiling) + t.busy.demand - t.available()
	return min(max(fill, t.configured), ceiling)
}
