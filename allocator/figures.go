package allocator

import "time"

// Figures are what is known of one tag at some moment.
type Figures struct {
	Tag     string
	Step    int64         // the step of the latest load
	Left    int64         // IDs in memory
	Total   int64         // IDs handed out since the tag was first asked for
	Rate    float64       // IDs per second, since a few minutes or the load before the latest
	Runway  time.Duration // how long Left lasts at Rate, at most MaxRunway
	Parked  int           // requests that wait for a segment
	Loading bool          // a load is under way
}

// MaxRunway is the longest runway that is reported. A tag at rest has it.
const MaxRunway = 365 * 24 * time.Hour

// Figures returns the figures of all tags that have been asked for, in no
// particular order.
func (a *Allocator) Figures() []Figures {
	now := a.cfg.Clock()
	tags := *a.tags.Load()
	all := make([]Figures, 0, len(tags))
	for _, t := range tags {
		t.mu.Lock()
		if t.step > 0 {
			all = append(all, t.figures(now))
		}
		t.mu.Unlock()
	}
	return all
}

func (t *tag) figures(now time.Duration) Figures {
	t.meter.recordReading(now, t.cur.Load())
	f := Figures{
		Tag:     t.name,
		Step:    t.step,
		Left:    t.available(),
		Total:   t.meter.total(t.cur.Load()),
		Rate:    t.meter.rate(now, t.cur.Load()),
		Runway:  t.runway(now),
		Parked:  len(t.parked),
		Loading: t.load.seq != 0,
	}
	return f
}

// runway is how long the IDs in memory last at the present rate.
func (t *tag) runway(now time.Duration) time.Duration {
	seconds := float64(t.available()) / t.meter.rate(now, t.cur.Load())
	if seconds < MaxRunway.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return MaxRunway
}

// meter measures the rate at which a tag's IDs are handed out, at no cost to requests.
// Its window moves with each load, and so is short when the tag is busy and long when it
// is not. With large segments, loads are far apart. So the window also moves when the
// figures are read; otherwise a tag that is busy again after a night would still look
// idle.
type meter struct {
	spent        int64 // handed out from the segments before the current one
	atLoad       int64 // the total at the latest load
	last, before sample
}

// sample is the total that had been handed out at some moment.
type sample struct {
	at    time.Duration
	total int64
}

// A reading moves the window only if enough time has passed, and enough IDs were handed
// out, since it last moved to tell a rate.
const (
	enoughTime = time.Minute
	enoughIDs  = 1000
)

// recordLoad records the total at a new load, and moves the window.
func (m *meter) recordLoad(now time.Duration, cur *segment) {
	m.atLoad = m.total(cur)
	m.moveWindow(now, cur)
}

// recordReading moves the window, when the figures are read, if that is worthwhile.
func (m *meter) recordReading(now time.Duration, cur *segment) {
	if now-m.last.at >= enoughTime && m.total(cur)-m.last.total >= enoughIDs {
		m.moveWindow(now, cur)
	}
}

// moveWindow makes the window begin where its latter half did.
func (m *meter) moveWindow(now time.Duration, cur *segment) {
	m.before, m.last = m.last, sample{now, m.total(cur)}
}

// total is the number of IDs handed out.
func (m *meter) total(cur *segment) int64 {
	if cur == nil {
		return m.spent
	}
	return m.spent + cur.used.Load()
}

// rate is in IDs per second, over the window.
func (m *meter) rate(now time.Duration, cur *segment) float64 {
	window := now - m.before.at
	if window <= 0 {
		return 0
	}
	return float64(m.total(cur)-m.before.total) / window.Seconds()
}
