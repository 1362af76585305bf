package allocator

import (
	"math"
	"time"
)

// Memory should last for 15 minutes or more, from the first minute of a rate on, with
// few loads. Each time the cursor has passed another fortieth of its segment, the tag
// is checked: if the IDs in memory do not last for 15 minutes at the present rate, the
// next load takes IDs for 20, whether a segment is ready or not.
//
// The rate is that of the faster of two windows. Both begin at earlier checks, the
// shorter one less than 15 seconds ago if the tag is busy, the longer one more than
// that. So soon after a surge one of them covers only the new rate.
//
// Where the rate cannot be measured, and for steps that are too long, Leaf's rule
// holds: a step that lasts for less than 15 minutes is doubled, one that lasts for 30
// or more is halved. Config.MaxStep bounds all this: where it does not last for 15
// minutes, memory has 0.9 to 1.9 times MaxStep.
const (
	shortLife  = 15 * time.Minute
	wantedLife = 20 * time.Minute
	longLife   = 30 * time.Minute
)

// steadyTime is the shortest time for a rate that decides whether memory lasts. A
// shorter window counts as if nothing had been handed out in the rest of it, so a
// burst does not make memory look too short.
const steadyTime = 15 * time.Second

// enoughIDs is how many have to be handed out to measure a rate.
const enoughIDs = 20

// maxGrowth bounds the growth from one step to the next, which is chosen once one part
// in [looks] of the step was used. So n IDs in a burst reserve less than maxGrowth ×
// looks × n. And yet 1,000 become the 120 million that 100,000 a second take in 20
// minutes with the sixth load.
const maxGrowth = 16

// pace is how many IDs were handed out in some time.
type pace struct {
	ids int64
	in  time.Duration
}

// lasting is how many IDs last for life at this pace, taken over at least some time.
// It is 0 if there were too few IDs to measure it.
func (p pace) lasting(life, least time.Duration) int64 {
	if p.ids < enoughIDs {
		return 0
	}
	return int64(min(float64(p.ids)*float64(life)/float64(max(p.in, least)), math.MaxInt64/2))
}

// paces are those of the shorter and the longer window.
type paces [2]pace

// lasting is the number of IDs that last for life at the faster pace.
func (p paces) lasting(life, least time.Duration) int64 {
	return max(p[0].lasting(life, least), p[1].lasting(life, least))
}

// grownStep is the step that lasts for wantedLife at the given paces, always between
// step and ceiling.
func grownStep(step int64, p paces, ceiling int64) int64 {
	wanted := p.lasting(wantedLife, 0)
	if wanted/maxGrowth >= step {
		wanted = step * maxGrowth
	}
	return min(max(step, wanted), ceiling)
}

// nextStep is the step that follows one that lasts for the given time: doubled if that
// is short, halved if it is long, and always between floor, the configured step, and
// ceiling.
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
