package allocator

import (
	"math"
	"time"
)

// A buffer should last for 15 minutes or more, from the first minute of a rate
// on, with few loads. Each time the cursor has passed another fortieth of its
// segment, the tag is checked: if the buffer does not last for 15 minutes at
// the present rate, the next load takes IDs for 20, whether a segment is ready
// or not.
//
// The rate is the higher of two windows. Both begin at earlier checks, the
// shorter less than 15 seconds ago if the tag is busy, the longer before that.
// So soon after a surge, one of them covers only the new rate.
//
// If the rate cannot be measured, and for steps that are too long, Leaf's rule
// holds: a step that lasts for less than 15 minutes is doubled, a step that
// lasts for 30 or more is halved. Config.MaxStep bounds all this: if it does
// not last for 15 minutes, the buffer has 0.9 to 1.9 times MaxStep.
const (
	shortLife  = 15 * time.Minute
	wantedLife = 20 * time.Minute
	longLife   = 30 * time.Minute
)

// steadyTime is the shortest time for a rate that decides whether the buffer
// lasts. A shorter window counts as if nothing had been handed out in the rest
// of it, so a burst does not make the buffer look too small.
const steadyTime = 15 * time.Second

// enoughIDs is how many have to be handed out to measure a rate.
const enoughIDs = 20

// maxGrowth bounds the growth from step to step, which is chosen once
// 1/checksPerSegment of the step is used. So n IDs in a burst reserve less than
// maxGrowth × checksPerSegment × n. Yet the sixth load grows from 1,000 to the
// 120 million that last for 20 minutes at 100,000 a second.
const maxGrowth = 16

// The methods below need mu.

// chooseStep is the step policy: a step that lasts for wantedLife, if the
// buffer does not last; otherwise Leaf's rule.
func (t *tag) chooseStep(now time.Duration, ceiling int64) int64 {
	if !t.runsShort(now, ceiling) {
		return nextStep(t.step, t.segmentLife(now), t.configured, ceiling)
	}
	step, wanted := max(t.step, t.configured), t.lasting(now, wantedLife, 0)
	if wanted/maxGrowth >= step {
		wanted = step * maxGrowth
	}
	return min(max(step, wanted), ceiling)
}

// runsShort reports whether the buffer does not last for shortLife at the
// present rate. If the ceiling does not allow that, nine tenths of a segment
// are enough.
func (t *tag) runsShort(now time.Duration, ceiling int64) bool {
	least := t.lasting(now, shortLife, steadyTime)
	return t.available() < min(least, ceiling-ceiling/loadAt)
}

// lasting is the number of IDs that last for life at the rate of the faster
// window, to which the demand of parked requests is added. least is the
// shortest length of a window. It is 0 if there were too few IDs to measure a
// rate.
func (t *tag) lasting(now, life, least time.Duration) (n int64) {
	total := t.total() + t.busy.demand
	for _, since := range []sample{t.meter.last, t.meter.before} {
		if ids := total - since.total; ids >= enoughIDs {
			n = max(n, int64(min(float64(ids)*float64(life)/float64(max(now-since.at, least)), math.MaxInt64/2)))
		}
	}
	return n
}

// segmentLife is the time that a segment of the present step lasts at the rate
// since the latest load. Leaf uses the time between two loads instead. But
// nearly all of that time was spent in the segment before, and a step that is
// judged by the life of another segment never settles.
func (t *tag) segmentLife(now time.Duration) time.Duration {
	used := t.total() - t.meter.begun.total + t.busy.demand
	life := float64(now-t.meter.begun.at) * float64(t.step) / float64(used)
	if life < float64(MaxRunway) {
		return time.Duration(life)
	}
	return MaxRunway // nothing was used
}

// nextStep is the step after a step that lasts for the given time: doubled if
// that is short, halved if it is long, and always between floor, the configured
// step, and ceiling.
func nextStep(step int64, lasts time.Duration, floor, ceiling int64) int64 {
	switch {
	case lasts < shortLife && step > ceiling/2:
		step = ceiling
	case lasts < shortLife:
		step *= 2
	case lasts >= longLife:
		step /= 2
	}
	return min(max(step, floor), ceiling)
}

// setConfigured sets the configured step. It applies from the next load on.
// Growth starts again from a lowered step, and from a raised step unless growth
// has already passed it.
func (t *tag) setConfigured(step int64) {
	switch {
	case step < t.configured:
		t.step = min(t.step, step)
	case t.step > 0:
		t.step = max(t.step, step)
	}
	t.configured = step
}
