package load

import "time"

// pace records how long calls take, and which tags are slow: those whose latest call
// failed or took longer than the limit.
type pace struct {
	timeout time.Duration // of a call
	typical time.Duration // of calls that worked: about their median
	slow    map[string]slowTag
}

// slowTag is what is known of a slow tag.
type slowTag struct {
	failed time.Time // the latest time
	alone  int       // how often it failed although the store had worked since the time before
}

const (
	minLimit    = 200 * time.Millisecond
	limitFactor = 8 // times the typical call

	// maxSlow bounds the memory for slow tags. When there are more, all are forgotten.
	maxSlow = 10_000
)

func newPace(timeout time.Duration) pace {
	return pace{timeout: timeout, typical: minLimit / limitFactor, slow: make(map[string]slowTag)}
}

// limit is how long a call may take while others wait for its slot.
func (p *pace) limit() time.Duration { return min(limitFactor*p.typical, p.timeout) }

// record records how long a call took that worked. A median follows the store, and not
// a few locked rows.
func (p *pace) record(took time.Duration) {
	if took > p.typical {
		p.typical = min(p.typical+p.typical/2, p.timeout)
	} else {
		p.typical = max(p.typical-p.typical/3, minLimit/limitFactor)
	}
}

// mark records that a tag is slow, and reports whether the store is to blame: to fail
// once before the store has worked for others is no more than to be in an outage. worked
// is when the store worked last.
func (p *pace) mark(tag string, worked time.Time) (blameStore bool) {
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

func (p *pace) isSlow(tag string) bool {
	_, slow := p.slow[tag]
	return slow
}
