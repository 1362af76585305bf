package allocator

import "time"

// Figures tells how one tag is doing.
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

// MaxRunway is reported for all that lasts longer, and for tags at rest.
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
	t.meter.look(now, t.cur.Load())
	f := Figures{
		Tag:     t.name,
		Step:    t.step,
		Left:    t.available(),
		Total:   t.meter.total(t.cur.Load()),
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

// meter counts a tag's IDs, so that reading its rate costs requests nothing. Its
// window moves with the loads, and so is short when the tag is busy and long when it
// is not. After a large segment was filled, loads are far apart; so it also moves when
// the figures are read, or a tag that is busy again after a night would seem to be
// idle still.
type meter struct {
	spent        int64 // in the segments before the current one
	loaded       int64 // the count at the latest load
	last, before sample
}

// sample is what had been handed out at some time.
type sample struct {
	at    time.Duration
	total int64
}

// The window moves when it is read only if what came since it moved last is enough to
// tell a rate.
const (
	enoughTime = time.Minute
	enoughIDs  = 1000
)

// load notes the count at a new load.
func (m *meter) load(now time.Duration, cur *segment) {
	m.loaded = m.total(cur)
	m.move(now, cur)
}

// look notes the count when it is read.
func (m *meter) look(now time.Duration, cur *segment) {
	if now-m.last.at >= enoughTime && m.total(cur)-m.last.total >= enoughIDs {
		m.move(now, cur)
	}
}

// move makes the window begin where its latter half did.
func (m *meter) move(now time.Duration, cur *segment) {
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
