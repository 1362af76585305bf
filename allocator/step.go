package allocator

import "time"

// A tag that reserves many numbers ahead outlives a long outage of the store,
// but a restart loses them. And a burst looks like a rate that has just begun.
// So a tag counts on a rate only after some minutes of it. Before that, it
// reserves as many numbers as it has used. docs/decisions.md has the
// arithmetic.
//
// This amount is the tag's level. A load begins when less than half of the
// level is buffered, and fills the buffer.

// fullRunway is the time that a full buffer lasts at a rate that has lasted. A
// buffer that is nearly half empty lasts for 13 minutes or more, because the
// rate that is measured may be a few per cent too low, and another few per cent
// are used before the tag is checked again.
const fullRunway = 32 * time.Minute

// The methods below need mu.

// level is the number of IDs in a full buffer, the largest of
//
//   - the configured step, so that a tag with few requests seldom loads;
//   - the IDs since each of the meter's marks, so that a burst of n IDs
//     reserves n more. If the mark is older than fullRunway, it is the share of
//     that time;
//   - fullRunway of the rate that has lasted.
//
// The rate since the first mark has lasted if half of it or more was there both
// before the second mark and after the third; otherwise less has lasted. A
// burst shorter than a minute is not in both.
//
// Parked requests count as if they had their IDs. A load has ceiling IDs at
// most, and the buffer twice as many.
func (t *tag) level(now time.Duration, ceiling int64) int64 {
	m, s := &t.meter.marks, sample{now, t.total() + t.busy.demand}
	lasted := min(s.rateSince(m[0]), 2*m[1].rateSince(m[0]), 2*s.rateSince(m[2]))
	level := max(float64(min(t.configured, ceiling)), lasted*fullRunway.Seconds())
	for _, mark := range m {
		ids, share := float64(s.total-mark.total), fullRunway.Seconds()/(now-mark.at).Seconds()
		level = max(level, ids*min(1, share))
	}
	return int64(min(level, 2*float64(ceiling)))
}

// isHalfEmpty reports whether less than half of the level is buffered.
func (t *tag) isHalfEmpty(now time.Duration, ceiling int64) bool {
	level := t.level(now, ceiling)
	return t.available() < level-level/2
}

// chooseStep is the step of a load that fills the buffer and serves the parked
// requests: at least the configured step, at most ceiling.
func (t *tag) chooseStep(now time.Duration, ceiling int64) int64 {
	fill := t.level(now, ceiling) + t.busy.demand - t.available()
	return min(max(fill, t.configured), ceiling)
}
