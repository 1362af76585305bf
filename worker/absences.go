package worker

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// absences decides when tags that a listing lacks have been removed. That they are not in one
// listing is no proof: a backup may be being restored, or the listing may be of a table or a
// bucket that was just made again.
//
// Few missing tags are believed to be removed if the next listing lacks them too. If a listing
// lacks too many, they are held: they stay until heldListings listings in a row have lacked
// them, over as many refreshes. That is an episode, which is logged as an error, once, and
// counted. It is for use by one goroutine; the counters are for all.
type absences struct {
	listed string        // what is listed, for the log
	every  time.Duration // how often it is listed
	log    *zap.Logger

	missing map[string]absence
	back    int // tags that were held in this episode and are back
	removed int // and those that were removed

	held     atomic.Int64 // tags that are held now
	episodes atomic.Int64
}

// absence is what is known of a missing tag.
type absence struct {
	since    time.Time
	listings int // in a row that lacked it
	held     bool
}

// heldListings is how many listings have to lack a tag that is held, over as many refreshes.
const heldListings = 5

// fewMissing tags are not too many, unless they are all there are.
const fewMissing = 2

// tooMany reports whether so many tags are missing that this is hardly meant: all of them, or
// more than a tenth.
func tooMany(missing, tags int) bool {
	return missing > 0 && (missing == tags || missing > fewMissing && missing*10 > tags)
}

// confirmPause is how long after a listing the next one confirms that a tag is missing.
func confirmPause(every time.Duration) time.Duration { return every / 12 }

func newAbsences(listed string, every time.Duration, log *zap.Logger) *absences {
	return &absences{listed: listed, every: every, log: log, missing: make(map[string]absence)}
}

// confirm is told which of the tags a listing lacks, and how many tags there are. It returns
// those that are believed to be removed. If unsure, others have to be confirmed by one more
// listing soon.
func (a *absences) confirm(now time.Time, missing []string, tags int) (removed []string, unsure bool) {
	hold := tooMany(len(missing), tags)
	still := make(map[string]absence, len(missing))
	for _, name := range missing {
		m, known := a.missing[name]
		if !known {
			m.since = now
		}
		m.listings++
		m.held = m.held || hold
		if a.isRemoved(m, now) {
			removed = append(removed, name)
			continue
		}
		unsure = unsure || !m.held
		still[name] = m
	}
	a.settle(missing, still, tags)
	return removed, unsure
}

// forget forgets what was missing.
func (a *absences) forget() {
	clear(a.missing)
	a.held.Store(0)
}

func (a *absences) isRemoved(m absence, now time.Time) bool {
	if m.held {
		return m.listings >= heldListings && now.Sub(m.since) >= heldListings*a.every
	}
	return now.Sub(m.since) >= confirmPause(a.every) // so this is not the first listing
}

// settle makes still the missing tags, and logs when an episode begins and when it ends.
func (a *absences) settle(missing []string, still map[string]absence, tags int) {
	lacking := make(map[string]bool, len(missing))
	for _, name := range missing {
		lacking[name] = true
	}
	for name, m := range a.missing {
		switch _, stays := still[name]; {
		case !m.held || stays:
		case lacking[name]:
			a.removed++
		default:
			a.back++
		}
	}
	held := 0
	for _, m := range still {
		if m.held {
			held++
		}
	}
	a.missing = still
	before := a.held.Swap(int64(held))
	switch {
	case before == 0 && held > 0:
		a.back, a.removed = 0, 0
		a.episodes.Add(1)
		a.log.Error("tags are missing from the "+a.listed+", too many to believe that they were removed; keeping them for now",
			zap.Int("missing", len(missing)), zap.Int("of", tags), zap.Strings("for example", missing[:min(3, len(missing))]),
			zap.Duration("believed after", heldListings*a.every))
	case before > 0 && held == 0:
		a.log.Warn("no tags are held any more that were missing from the "+a.listed,
			zap.Int("back", a.back), zap.Int("removed", a.removed))
	}
}
