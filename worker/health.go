package worker

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// health is the one state of health that a loader has of its store.
//
//	up       calls are made as they come. Three failures without a success in
//	         between, or one of a call that took a second in which none
//	         succeeded → failing
//	failing  a call now and then finds out whether the store is back; all else
//	         waits. A success → up
//
// What counts as a failure of the store is up to the caller: one that says more about the tag
// does not. Nor does one of a call that began before the latest success: it belongs to what is
// over.
type health struct {
	log *zap.Logger

	mu      sync.Mutex
	failing bool
	streak  int       // failures since the latest success
	since   time.Time // the first of them
	worked  time.Time // the latest success
	probed  time.Time // when the latest probe began
	outages int64     // so far
	latest  error     // the latest failure
}

const (
	// failuresOfAnOutage in a row are evidence that it is the store that fails.
	failuresOfAnOutage = 3

	// longFailure is how long a call takes whose failure is evidence by itself.
	longFailure = time.Second

	// probePause is the time between two probes, at least. A probe that hangs does not hold up
	// the next: it may be its tag that hangs.
	probePause = 750 * time.Millisecond
)

func newHealth(log *zap.Logger, store string) *health {
	return &health{log: log.With(zap.String("store", store))}
}

// isUp reports whether the store is up.
func (h *health) isUp() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.failing
}

// nextProbe returns when a store that fails may be called next.
func (h *health) nextProbe() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.probed.Add(probePause)
}

// beginProbe records that a call begins although the store fails.
func (h *health) beginProbe() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probed = time.Now()
}

// recordFailure records that a call failed that had begun at the given time.
func (h *health) recordFailure(tag string, began time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if began.Before(h.worked) {
		return
	}
	h.latest = err
	if h.streak++; h.streak == 1 {
		h.since = began
	}
	if h.failing || h.streak < failuresOfAnOutage && time.Since(began) < longFailure {
		return
	}
	h.failing, h.probed = true, time.Now()
	h.outages++
	h.log.Error("store fails", zap.String("tag", tag), zap.Error(err))
}

// recordSuccess records that a call worked, and reports whether the store is up again.
func (h *health) recordSuccess() (recovered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, failures := time.Now(), h.streak
	h.worked, h.streak = now, 0
	if !h.failing {
		return false
	}
	h.failing = false
	h.log.Info("store works again", zap.Duration("after", now.Sub(h.since)), zap.Int("failures", failures))
	return true
}

// workedSince reports whether a call worked after the given time.
func (h *health) workedSince(at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.worked.After(at)
}

// figures reports whether the store fails now, and how many times it began to.
func (h *health) figures() (current bool, total int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failing, h.outages
}
