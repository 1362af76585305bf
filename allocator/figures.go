package allocator

import (
	"time"

	"github.com/idworker/idworker/store"
)

// Figures are a tag's figures at some moment.
type Figures struct {
	Tag   string
	Order store.Order
	Step  int64 // the step of the latest load; 0 for a strict tag
	Left  int64 // buffered IDs
	Total int64 // IDs handed out since the tag was created here
	// IDs granted since then; what is neither handed out nor left is burnt.
	Granted int64
	// IDs per second, over half a minute or the latest few IDs.
	Rate    float64
	Runway  time.Duration // the time that Left lasts at Rate, at most MaxRunway
	Parked  int           // requests that wait for a segment
	Loading bool          // a load is under way

	// The end of the highest segment ever granted to this worker.
	High int64
	// Numbers of the tag that all workers use up a second; 0 if there was too
	// little to measure.
	Use  float64
	Over time.Duration // the duration of that measurement, up to some days
}

// MaxRunway is the longest reported runway. A tag at rest has it.
const MaxRunway = 365 * 24 * time.Hour

// Figures returns the figures of the tags that were granted, in no particular
// order.
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
		Total:   t.total(),
		Granted: t.meter.granted,
		Rate:    t.rate(now),
		Runway:  t.runway(now),
		Parked:  len(t.busy.parked),
		Loading: t.loading() > 0,
		High:    t.high,
	}
	if t.order == store.Strict {
		f.Runway = MaxRunway // it needs no buffer
	}
	f.Use, f.Over = t.use.rate(sample{now, f.Total})
	return f
}

// runway is the time that the buffer lasts at the present rate. A tag at rest
// has MaxRunway, and a tag without IDs 0.
func (t *tag) runway(now time.Duration) time.Duration {
	left := t.available()
	if left == 0 {
		return 0
	}
	seconds := min(float64(left)/t.rate(now), MaxRunway.Seconds())
	return time.Duration(seconds * float64(time.Second))
}

// meter measures the rate at which a tag's IDs are handed out, at no cost to
// requests. Its window moves whenever the tag is checked, and when the figures
// are read; otherwise a tag that is busy again after a night would still look
// idle.
type meter struct {
	spent        int64  // handed out from earlier segments
	granted      int64  // the IDs of all grants that ended a load
	begun        sample // when the latest load began
	last, before sample
}

// sample is the total that had been handed out at some moment.
type sample struct {
	at    time.Duration
	total int64
}

// rateSince is in IDs per second.
func (s sample) rateSince(before sample) float64 {
	if s.at <= before.at {
		return 0
	}
	return float64(s.total-before.total) / (s.at - before.at).Seconds()
}

// The methods below need mu.

// total is the number of IDs handed out.
func (t *tag) total() int64 { return t.meter.spent + t.cur.Load().used.Load() }

// rate is in IDs per second, over the window.
func (t *tag) rate(now time.Duration) float64 {
	return sample{now, t.total()}.rateSince(t.meter.before)
}

// record moves the windows over which rates are measured. That of the meter
// begins where its latter half did, if enough time has passed and enough IDs
// were handed out since it last moved. So each half is steadyTime or longer,
// and together they have enoughIDs.
func (t *tag) record(now time.Duration) {
	s, m := sample{now, t.total()}, &t.meter
	if s.at-m.last.at >= steadyTime && s.total-m.last.total >= enoughIDs/2 {
		m.before, m.last = m.last, s
	}
	if t.use != nil {
		t.use.record(s)
	}
}
