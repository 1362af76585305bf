package loader

import (
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
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
