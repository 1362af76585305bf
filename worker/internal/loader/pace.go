package loader

import "time"

// callPace records the duration of calls, and which tags are slow: those whose
// latest call failed or took longer than the limit.
type callPace struct {
	timeout time.Duration // of a call
	typical time.Duration // of successful calls: about their median
	slow    map[string]slowTag
}

// slowTag is the state of a slow tag.
type slowTag struct {
	failed time.Time // most recently
	// Failures of the tag although the store had worked since the previous
	// failure.
	alone int
}

const (
	minLimit    = 200 * time.Millisecond
	limitFactor = 8 // times the typical call

	// maxSlow bounds the memory for slow tags. Beyond it, all are dropped.
	maxSlow = 10_000
)

func newPace(timeout time.Duration) callPace {
	return callPace{timeout: timeout, typical: minLimit / limitFactor, slow: make(map[string]slowTag)}
}

// limit bounds a call while other tags wait for its slot.
func (p *callPace) limit() time.Duration { return min(limitFactor*p.typical, p.timeout) }

// record records the duration of a successful call. A median follows the store,
// and not a few locked rows.
func (p *callPace) record(took time.Duration) {
	if took > p.typical {
		p.typical = min(p.typical+p.typical/2, p.timeout)
	} else {
		p.typical = max(p.typical-p.typical/3, minLimit/limitFactor)
	}
}

// markSlow records that a tag is slow, and reports whether the store is to blame. A
// single failure, before the store has worked for other tags, may just be an
// outage. worked is the time of the latest success of the store.
func (p *callPace) markSlow(tag string, worked time.Time) (blameStore bool) {
	s, found := p.slow[tag]
	if found && worked.After(s.failed) {
		s.alone++
	}
	if !found && len(p.slow) >= maxSlow {
		clear(p.slow)
	}
	s.failed = time.Now()
	p.slow[tag] = s
	return s.alone < 2
}

func (p *callPace) isSlow(tag string) bool {
	_, slow := p.slow[tag]
	return slow
}
