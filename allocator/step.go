package allocator

import "time"

// A segment should last between these two, at the rate of its tag (Leaf's rule).
const (
	shortLife = 15 * time.Minute
	longLife  = 30 * time.Minute
)

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
