package worker

import "time"

// processStart is the origin of [elapsed].
var processStart = time.Now()

// elapsed is the present moment, as the time since the process started: that is cheaper
// to read than the time of day.
func elapsed() time.Duration { return time.Since(processStart) }

// timedEvery is how many requests that are answered from memory share one reading of the
// clock, which takes longer than the rest of the request. Such requests are alike: all take
// microseconds.
const timedEvery = 16

// stopwatch times the requests of one endpoint, which has one goroutine. It times one
// request in timedEvery and takes that for the time of the others.
type stopwatch struct {
	turn uint
	last time.Duration // what the latest timed request took
}

// start returns the moment at which a request begins, or 0 if it is not timed.
func (s *stopwatch) start() (began time.Duration) {
	s.turn++
	if s.turn%timedEvery != 1 {
		return 0
	}
	return elapsed()
}

// read returns how long a request took; for one that is not timed, what the latest timed
// one took.
func (s *stopwatch) read(began time.Duration) time.Duration {
	if began != 0 {
		s.last = elapsed() - began
	}
	return s.last
}
