package allocator

import "time"

// Figures tells how one tag is doing.
type Figures struct {
	Tag     string
	Step    int64         // the step of the latest load
	Left    int64         // IDs in memory
	Rate    float64       // IDs per second, over the latest two loads and since
	Runway  time.Duration // how long Left lasts at Rate, at most MaxRunway
	Parked  int           // requests that wait for a segment
	Loading bool          // a load is under way
}

// MaxRunway is reported for all that lasts longer, and for tags at rest.
const MaxRunway = 365 * 24 * time.Hour

// Figures returns the figures of all tags that have been asked for, in no
// particular order.
func (a *Allocator) Figures() []Figures {
	now := a.cfg.Clock()
	var all []Figures
	for _, t := range *a.tags.Load() {
		t.mu.Lock()
		if t.step > 0 {
			all = append(all, t.figures(now))
		}
		t.mu.Unlock()
	}
	return all
}

func (t *tag) figures(now time.Duration) Figures {
	f := Figures{
		Tag:     t.name,
		Step:    t.step,
		Left:    t.available(),
		Rate:    t.meter.rate(now, t.cur.Load()),
		Runway:  MaxRunway,
		Parked:  len(t.parked),
		Loading: t.loadSeq != 0,
	}
	if seconds := float64(f.Left) / f.Rate; seconds < MaxRunway.Seconds() {
		f.Runway = time.Duration(seconds * float64(time.Second))
	}
	return f
}

// meter counts a tag's IDs, so that reading its rate costs requests nothing. A
// window that moves with the loads is short when the tag is busy and long when
// it is not.
type meter struct {
	spent        int64 // in the segments before the current one
	last, before sample
}

// sample is what had been handed out at the time of a load.
type sample struct {
	at    time.Duration
	total int64
}

// mark remembers the count at a new load.
func (m *meter) mark(now time.Duration, cur *segment) {
	if m.before = m.last; m.before == (sample{}) {
		m.before = sample{now, 0}
	}
	m.last = sample{now, m.total(cur)}
}

// total is the number of IDs handed out.
func (m *meter) total(cur *segment) int64 {
	if cur == nil {
		return m.spent
	}
	return m.spent + cur.used.Load()
}

// rate is in IDs per second, since the load before the latest.
func (m *meter) rate(now time.Duration, cur *segment) float64 {
	window := now - m.before.at
	if window <= 0 {
		return 0
	}
	return float64(m.total(cur)-m.before.total) / window.Seconds()
}
