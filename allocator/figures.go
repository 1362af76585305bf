package allocator

import (
	"slices"
	"time"

	"github.com/idworker/idworker/store"
)

// Figures are a tag's figures at some moment.
type Figures struct {
	Tag   string
	Order store.Order
	Step  int64 // the step of the latest load; 0 for a strict tag
	// The configured step, which loads may exceed; 0 for a strict tag.
	Configured int64
	Left       int64 // buffered IDs
	Total      int64 // IDs handed out since the tag was created here
	// IDs granted since then; what is neither handed out nor left is burnt.
	Granted int64
	// IDs per second, over one to two minutes, or over the latest 10 to 20 IDs
	// if those took longer.
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
		if !t.isNew() && !t.dropped {
			all = append(all, t.figures(now))
		}
		t.unlock()
	}
	return all
}

func (t *tag) figures(now time.Duration) Figures {
	t.record(now)
	f := Figures{
		Tag:        t.name,
		Order:      t.order,
		Step:       t.step,
		Configured: t.configured,
		Left:       t.available(),
		Total:      t.total(),
		Granted:    t.meter.granted,
		Rate:       t.rate(now),
		Runway:     t.runway(now),
		Parked:     len(t.busy.parked),
		Loading:    t.busy.load.state != idle,
		High:       t.high,
	}
	if t.order != store.Trend {
		f.Runway = MaxRunway // it needs no buffer, or is about to be filled
	}
	if t.order == "" { // it was voided
		f.Order = store.Strict
		if t.configured > 0 {
			f.Order = store.Trend
		}
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

// meter measures how fast a tag's IDs are handed out, at no cost to requests:
// it takes a sample when the tag is checked or its figures are read, if
// sampleTime has passed and sampleIDs were handed out since the latest. A tag
// that is created has four samples of that moment.
type meter struct {
	spent   int64     // handed out from earlier segments
	granted int64     // the IDs of all grants that ended a load
	samples [4]sample // of the last minutes, the latest last
}

const (
	sampleTime = time.Minute
	sampleIDs  = 10
)

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

// rate is in IDs per second, over the latest one to two minutes, or over the
// latest 10 to 20 IDs if those took longer. When traffic ends, there are no more
// samples. So if one is overdue, the rate is at most what it would be if
// sampleIDs more had been handed out since the latest one. Batches with more
// than a minute between them look like the end of traffic, too.
func (t *tag) rate(now time.Duration) float64 {
	s, latest := sample{now, t.total()}, t.meter.samples[3]
	rate := s.rateSince(t.meter.samples[2])
	if now-latest.at > sampleTime {
		latest.total -= sampleIDs
		rate = min(rate, s.rateSince(latest))
	}
	return rate
}

// record takes the samples that are due.
func (t *tag) record(now time.Duration) {
	s, m := sample{now, t.total()}, &t.meter
	if latest := m.samples[3]; s.at-latest.at >= sampleTime && s.total-latest.total >= sampleIDs {
		m.samples = [...]sample{m.samples[1], m.samples[2], latest, s}
	}
	if t.use != nil {
		t.use.record(s)
	}
}

// use measures the rate at which all workers together use up the numbers of a
// tag, over hours and days, for forecasts. meter does that for the last minutes,
// and for one worker.
//
// A worker counts the IDs that it hands out. The share of other workers shows
// in its grants: the numbers between the end of a grant and the beginning of
// the next were granted to others, or burnt. A gap may also mean that the tag
// was raised, or that a process died after a large grant. Neither predicts the
// future, so the gap that counts is the median of the latest few, and a gap
// that is too large for any use does not count at all: several raises may
// follow each other within a few grants.
//
// The rate is the lower of two: over the whole window, and over its latter
// part. So neither a burst that has ended counts as the future, nor a burst
// that has just begun. The window begins with the tag's second grant, because a
// tag with few requests needs no forecast. It covers between two and five days
// once the worker has lived that long.
type use struct {
	// The beginnings of the window, of its latter part, and of the next.
	samples [3]sample
	made    int // how many of them there are
	gaps    [5]float32
	seen    int64 // number of gaps so far; the latest are kept
}

const (
	firstPart = 15 * time.Second // of a window that has begun; it doubles
	// A window of two such parts is long enough, and moves on.
	wholeParts = 24 * time.Hour

	leastUse  = 100 // IDs have to be handed out to measure a rate
	leastGaps = 3   // so that a single gap decides nothing

	// At a worker that gets a grant every quarter of an hour, a gap of this
	// size means a raise, or that others use more than a million IDs a second.
	leastRaise = 1_000_000_000
)

// record moves the window, if it is time for that.
func (u *use) record(now sample) {
	begin, latest := u.samples[0], u.samples[max(u.made-1, 0)]
	whole := latest.at - begin.at
	switch {
	case u.made == 0, u.made == 1 && now.at-begin.at >= firstPart, u.made == 2 && now.at-begin.at >= 2*whole:
		u.samples[u.made] = now
		u.made++
	case u.made < len(u.samples):
	case whole >= 2*wholeParts && now.at-latest.at >= wholeParts:
		u.samples = [...]sample{u.samples[1], latest, now}
	case whole < 2*wholeParts && now.at-begin.at >= 2*whole:
		u.samples[1], u.samples[2] = latest, now
	}
}

// rate is how many numbers are used up a second, and over which time that was
// measured; 0 if there was too little to measure.
func (u *use) rate(now sample) (perSecond float64, over time.Duration) {
	if u == nil || u.made < 2 || u.seen < leastGaps || now.total-u.samples[0].total < leastUse {
		return 0, 0
	}
	over = now.at - u.samples[0].at
	own := min(now.rateSince(u.samples[0]), now.rateSince(u.samples[1]))
	return own * (1 + u.gap()), over
}

// gap is the usual number of IDs that others are granted for each ID granted to
// this worker.
func (u *use) gap() float64 {
	latest := slices.Sorted(slices.Values(u.gaps[:min(u.seen, int64(len(u.gaps)))]))
	return float64(latest[(len(latest)-1)/2])
}

// recordGap takes in a grant before it counts as granted. It needs mu.
func (t *tag) recordGap(s store.Segment) {
	gap := s.First - t.high
	if t.high == 0 || gap >= leastRaise {
		return // the previous grant is unknown, or the tag was raised
	}
	if t.use == nil {
		t.use = new(use)
	}
	t.use.gaps[t.use.seen%int64(len(t.use.gaps))] = float32(gap) / float32(s.Len())
	t.use.seen++
}
