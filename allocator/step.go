package allocator

import (
	"math"
	"time"
)

// A segment should last between shortLife and longLife, at the rate of its tag (Leaf's rule).
// A step that has to grow becomes what wantedLife takes, which is between the two.
const (
	shortLife  = 15 * time.Minute
	wantedLife = 20 * time.Minute
	longLife   = 30 * time.Minute
)

// steadyTime is over how much time a rate is taken at least, when it is judged whether memory
// lasts. So a burst does not make it look too short.
const steadyTime = 15 * time.Second

// enoughIDs is how many have to be handed out to tell a rate.
const enoughIDs = 20

// maxGrowth bounds how many times the step before a step may be. The next one is chosen once
// one part in [looks] of it was used. So what was seen for a moment only is not believed for
// 20 minutes: n IDs in a burst have less than maxGrowth × looks × n reserved. And yet 1,000
// become the 120 million that 100,000 a second take with the sixth load.
const maxGrowth = 16

// pace is how many IDs were handed out in some time.
type pace struct {
	ids int64
	in  time.Duration
}

// lasting is how many IDs last for life at this pace, taken over at least some time. It is
// 0 if there were too few IDs to tell.
func (p pace) lasting(life, least time.Duration) int64 {
	if p.ids < enoughIDs {
		return 0
	}
	return int64(min(float64(p.ids)*float64(life)/float64(max(p.in, least)), math.MaxInt64/2))
}

// paces are those of the present and of the one before it, at the latest looks. One of
// them begins after a surge did, and the other is long enough to tell.
type paces [2]pace

// lasting is the number of IDs that last for life at the faster pace.
func (p paces) lasting(life, least time.Duration) int64 {
	return max(p[0].lasting(life, least), p[1].lasting(life, least))
}

// grownStep is the step that lasts for wantedLife at the given paces, always between step and
// ceiling.
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
