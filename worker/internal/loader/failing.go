package loader

import (
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/loadmsg"
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

// refused records that a tag has no numbers left.
func (e *endings) refused(tag string, limit int64) {
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
	e.log.Error("tag is exhausted", zap.String("tag", tag), zap.Int64("limit", limit))
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
