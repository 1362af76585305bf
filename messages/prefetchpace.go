package messages

import "time"

// pace decides how many IDs a prefetcher should buffer: twice the use of its
// callers in a Runway, so that the half at which more are requested lasts a
// Runway.
//
// The target grows at once, because callers feel a lack of IDs, but at most by
// a factor of two at a time, because the first microseconds of a burst prove
// little. It shrinks at most once per Runway, because a moment without callers
// proves nothing.
type pace struct {
	cfg    PrefetchConfig
	target int64
	since  time.Time // time of the last measurement of the rate
	handed int64     // IDs returned by then
}

func newPace(cfg PrefetchConfig, now time.Time) pace {
	return pace{cfg: cfg, target: 1, since: now}
}

// updateTarget returns the target for the next refill, given the number of IDs
// returned so far.
func (p *pace) updateTarget(now time.Time, handed int64) int64 {
	elapsed := now.Sub(p.since)
	if elapsed <= 0 {
		return p.target
	}
	want := 2 * float64(handed-p.handed) * float64(p.cfg.Runway) / float64(elapsed)
	grows := want > float64(p.target)
	if !grows && elapsed < p.cfg.Runway {
		return p.target // too early for a measurement
	}
	want = min(want, float64(2*p.target), float64(p.cfg.Limit))
	p.target = max(int64(want), half(p.target), 1)
	p.since, p.handed = now, handed
	return p.target
}

// half returns half of n, rounded up.
func half(n int64) int64 { return n - n/2 }
