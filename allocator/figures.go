package allocator

import (
	"time"

	"github.com/idworker/idworker/store"
)

// Figures are the figures of one tag at some moment.
type Figures struct {
	Tag     string
	Order   store.Order
	Step    int64         // the step of the latest load; 0 for a strict tag
	Left    int64         // IDs in memory
	Total   int64         // IDs handed out since the tag came into memory
	Rate    float64       // IDs per second, over half a minute or the latest few IDs
	Runway  time.Duration // how long Left lasts at Rate, at most MaxRunway
	Parked  int           // requests that wait for a segment
	Loading bool          // a load is under way

	High int64         // the end of the highest segment ever granted to this worker
	Use  float64       // numbers of the tag that all workers use up a second; 0 if there was too little to measure
	Over time.Duration // for how long that was measured, up to some days
}

// MaxRunway is the longest runway that is reported. A tag at rest has it.
const MaxRunway = 365 * 24 * time.Hour

// Figures returns the figures of the tags that were granted, in no particular order.
func (a *Allocator) Figures() []Figures {
	now := a.cfg.Clock()
	all := make([]Figures, 0, a.Tags())
	for _, t := range a.tags.All() {
		t.lock()
		if t.order != "" && !t.dropped {
			all = append(all, t.figures(now))
		}
		t.unlock()
	}
	return all
}

func (t *tag) figures(now time.Duration) Figures {
	t.record(now)
	f := Figures{
		Tag:     t.name,
		Order:   t.order,
		Step:    t.step,
		Left:    t.available(),
		Total:   t.meter.total(t.cur.Load()),
		Rate:    t.meter.rate(now, t.cur.Load()),
		Runway:  t.runway(now),
		Parked:  len(t.busy.parked),
		Loading: t.busy.load.seq != 0,
		High:    t.high,
	}
	if t.order == store.Strict {
		f.Runway = MaxRunway // it needs nothing in memory
	}
	f.Use, f.Over = t.use.rate(sample{now, f.Total})
	return f
}

// runway is how long the IDs in memory last at the present rate. A tag at rest has MaxRunway, and
// one without IDs none.
func (t *tag) runway(now time.Duration) time.Duration {
	left := t.available()
	if left == 0 {
		return 0
	}
	seconds := float64(left) / t.meter.rate(now, t.cur.Load())
	if seconds < MaxRunway.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return MaxRunway
}

// meter measures the rate at which a tag's IDs are handed out, at no cost to requests.
// Its window moves whenever the tag is checked, and when the figures are read; otherwise
// a tag that is busy again after a night would still look idle.
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

// begin begins the window.
func (m *meter) begin(now time.Duration, cur *segment) {
	m.last = sample{now, m.total(cur)}
	m.before = m.last
}

// record moves the window, so that it begins where its latter half did, if enough time
// has passed and enough IDs were handed out since it last moved. So each half is
// steadyTime or longer, and together they have enoughIDs.
func (m *meter) record(now time.Duration, cur *segment) {
	if total := m.total(cur); now-m.last.at >= steadyTime && total-m.last.total >= enoughIDs/2 {
		m.before, m.last = m.last, sample{now, total}
	}
}

// total is the number of IDs handed out.
func (m *meter) total(cur *segment) int64 {
	if cur == nil {
		return m.spent
	}
	return m.spent + cur.used.Load()
}

// paces are those of the latter half of the window and of all of it, with the demand of
// parked requests added.
func (m *meter) paces(now time.Duration, cur *segment, demand int64) (p paces) {
	total := m.total(cur) + demand
	for i, since := range []sample{m.last, m.before} {
		p[i] = pace{total - since.total, now - since.at}
	}
	return p
}

// rate is in IDs per second, over the window.
func (m *meter) rate(now time.Duration, cur *segment) float64 {
	window := now - m.before.at
	if window <= 0 {
		return 0
	}
	return float64(m.total(cur)-m.before.total) / window.Seconds()
}
