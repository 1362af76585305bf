package loader

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// endings has the tags whose numbers are used up, or will be soon. Each step of
// a tag is logged once.
type endings struct {
	log *zap.Logger

	mu   sync.Mutex
	tags map[string]ending
}

// ending is a tag's state, as found when its numbers ended at limit.
type ending struct {
	exhausted bool
	limit     int64
	found     time.Time // by the latest load
}

const (
	// soon is the part of all numbers that is left when a tag ends soon: a
	// tenth.
	soon = 10

	// maxEndings bounds the memory for the tags.
	maxEndings = 10_000

	// endingLasts is the time for which a tag without loads is listed: it may be
	// gone.
	endingLasts = time.Hour

	// MaxNamed bounds the tags of a kind in Endings and Failures.
	MaxNamed = 20
)

// Endings are the tags that a loader has found to end.
type Endings struct {
	Exhausted int `json:"exhausted"` // tags without numbers
	Soon      int `json:"soon"`      // tags that have less than a tenth of all
	// Some of both, by name.
	ExhaustedTags []string `json:"exhausted_tags,omitempty"`
	SoonTags      []string `json:"soon_tags,omitempty"`
}

func newEndings(log *zap.Logger) *endings {
	return &endings{log: log, tags: make(map[string]ending)}
}

// granted records the end of a tag's latest grant. Numbers end at limit.
func (e *endings) granted(tag string, end, limit int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, listed := e.tags[tag]
	switch near := limit-end < limit/soon; {
	case listed && !near:
		e.forget(tag)
	case listed:
		e.tags[tag] = ending{false, limit, time.Now()}
	case near && len(e.tags) < maxEndings:
		e.tags[tag] = ending{false, limit, time.Now()}
		e.log.Warn("tag will soon be exhausted", zap.String("tag", tag), zap.Int64("left", limit-end), zap.Int64("limit", limit))
	}
}

// refused records that a tag has no numbers left. The error names the constraint
// of the table, if one ends them before limit.
func (e *endings) refused(tag string, limit int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	had, listed := e.tags[tag]
	if !listed && len(e.tags) >= maxEndings {
		return
	}
	e.tags[tag] = ending{true, limit, time.Now()}
	if had.exhausted {
		return
	}
	e.log.Error("tag is exhausted", zap.String("tag", tag), zap.Int64("limit", limit), zap.Error(err))
}

// forget removes a tag that has numbers again. The caller holds mu.
func (e *endings) forget(tag string) {
	delete(e.tags, tag)
	e.log.Info("tag is no longer exhausted", zap.String("tag", tag))
}

// report returns the tags for people. A limit that has risen since they were
// found ends their state: the column was made wider.
func (e *endings) report(limit int64) (r Endings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, tag := range slices.Sorted(maps.Keys(e.tags)) {
		n, named := &r.Soon, &r.SoonTags
		switch found := e.tags[tag]; {
		case time.Since(found.found) > endingLasts:
			delete(e.tags, tag)
			continue
		case limit > found.limit:
			e.forget(tag)
			continue
		case found.exhausted:
			n, named = &r.Exhausted, &r.ExhaustedTags
		}
		if *n++; len(*named) < MaxNamed {
			*named = append(*named, tag)
		}
	}
	return r
}

// failures has the tags that cannot be granted although the store works: their
// row is missing, locked or contradicts itself, or a trigger refuses it.
type failures struct {
	log    *zap.Logger
	logged rate.Sometimes

	mu   sync.Mutex
	tags map[string]failure
}

// failure is a tag's failed loads in a row.
type failure struct {
	times int
	why   string
	last  time.Time
}

const (
	// listedAfter is the number of failed loads after which a tag is listed. A
	// single one may be due to another client.
	listedAfter = 3

	// failureLasts is the time for which a tag without loads is listed. Workers
	// repeat a refused load after a minute at most.
	failureLasts = 2 * time.Minute

	maxFailures = 10_000 // bounds the memory
)

// Failures are the tags that a loader cannot grant.
type Failures struct {
	Tags  int          `json:"tags"`
	Named []TagFailure `json:"named,omitempty"` // some of them, by name
}

// TagFailure is a tag with the error of its latest load.
type TagFailure struct {
	Tag   string `json:"tag"`
	Error string `json:"error"`
}

func newFailures(log *zap.Logger) *failures {
	return &failures{log: log, logged: rate.Sometimes{First: 10, Interval: time.Minute}, tags: make(map[string]failure)}
}

// failed records a failed load. One that the store refused for good is listed at
// once.
func (f *failures) failed(tag string, refused bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, found := f.tags[tag]
	if !found && len(f.tags) >= maxFailures {
		return
	}
	now := failure{had.times + 1, loadmsg.Reason(err), time.Now()}
	if refused {
		now.times = max(now.times, listedAfter)
	}
	f.tags[tag] = now
	if had.times < listedAfter && now.times >= listedAfter {
		f.logged.Do(func() { f.log.Error("cannot grant tag", zap.String("tag", tag), zap.Error(err)) })
	}
}

// granted records a load that succeeded.
func (f *failures) granted(tag string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, found := f.tags[tag]
	if !found {
		return
	}
	delete(f.tags, tag)
	if had.times >= listedAfter {
		f.logged.Do(func() { f.log.Info("tag is granted again", zap.String("tag", tag)) })
	}
}

// unknown records that the store has no tag of that name, so none fails.
func (f *failures) unknown(tag string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tags, tag)
}

// report returns the tags for people.
func (f *failures) report() (r Failures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.tags, func(_ string, had failure) bool { return time.Since(had.last) > failureLasts })
	for _, tag := range slices.Sorted(maps.Keys(f.tags)) {
		had := f.tags[tag]
		if had.times < listedAfter {
			continue
		}
		if r.Tags++; len(r.Named) < MaxNamed {
			r.Named = append(r.Named, TagFailure{tag, had.why})
		}
	}
	return r
}

// callCounts counts the store calls by outcome.
type callCounts map[string]*atomic.Int64

// Figures has a loader's figures since its start.
type Figures struct {
	Calls    Calls
	Outage   Outage
	Endings  Endings
	Failures Failures
	Server   string       // the database server that answered lately
	Limit    int64        // below which tags end
	Moves    *store.Moves // nil without a table
}

// Calls counts a loader's calls of the store.
type Calls struct {
	Writes   int64 `json:"writes"` // calls, of any outcome
	Failures int64 `json:"failures"`
	Burnt    int64 `json:"burnt"` // ranges that the store discarded
}

// Figures returns the figures.
func (l *Loader) Figures() Figures {
	f := Figures{Outage: l.schedule.outage()}
	for _, n := range l.counts {
		f.Calls.Writes += n.Load()
	}
	f.Calls.Failures = l.counts["failed"].Load()
	of := l.cfg.Store.Figures()
	f.Calls.Burnt, f.Server, f.Limit = of.Burnt, of.Server, l.cfg.Store.Limited()
	f.Moves = of.Moves
	f.Endings, f.Failures = l.endings.report(f.Limit), l.failures.report()
	return f
}

var (
	loadsTotal   = metric.Declare("loads_total", "Store calls for a segment, by outcome.", "outcome")
	loadDuration = metric.Declare("load_duration_seconds", "Duration of store calls for a segment.")
	endingTags   = metric.Declare("store_ending_tags", "Tags that a loader found to be exhausted, or to have less than a tenth of all numbers left.", "state")
	failingTags  = metric.Declare("store_failing_tags", "Tags that a loader cannot grant, although the store works.")
	storeOutage  = metric.Declare("store_outage", "1 if the store is failing, else 0.")
	outagesTotal = metric.Declare("store_outages_total", "Store outages, including the current one.")

	wentBackTotal = metric.Declare("store_went_back_total", "Times a table row or the register regressed.", "what")
	storeStopped  = metric.Declare("store_stopped", "1 if the loader stopped granting because the register regressed.")
	grantedTotal  = metric.Declare("store_granted_total", "Ranges reserved and granted.")
	burntTotal    = metric.Declare("store_burnt_total", "Ranges discarded: below an earlier grant, or outcome unknown.")
)

// Collect sends the metrics of the loader and of its store.
func (l *Loader) Collect(to metric.Sink) {
	for _, name := range slices.Sorted(maps.Keys(l.counts)) {
		to.Counter(loadsTotal, l.counts[name].Load(), name)
	}
	to.Histogram(loadDuration, &l.latency, 0)
	f := l.cfg.Store.Figures()
	endings := l.endings.report(l.cfg.Store.Limited())
	to.Gauge(endingTags, float64(endings.Exhausted), "exhausted")
	to.Gauge(endingTags, float64(endings.Soon), "soon")
	to.Gauge(failingTags, float64(l.failures.report().Tags))
	outage := l.schedule.outage()
	to.BoolGauge(storeOutage, outage.Now)
	to.Counter(outagesTotal, outage.Times)

	to.Counter(wentBackTotal, f.RowsBack, "table")
	to.Counter(wentBackTotal, f.Regressions, "register")
	to.BoolGauge(storeStopped, l.cfg.Store.Stopped() != nil)
	to.Counter(grantedTotal, f.Granted)
	to.Counter(burntTotal, f.Burnt)
}
