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
