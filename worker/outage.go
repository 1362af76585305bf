package worker

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// outage logs one line when the store begins to fail and one when it works again, however
// many calls fail in between. An outage is over when every tag that failed has worked, or
// has not been tried for some time.
type outage struct {
	log *zap.Logger

	mu       sync.Mutex
	failing  map[string]time.Time // tag → latest failure
	since    time.Time            // the first failure
	ended    time.Time            // the end of the latest outage
	failures int
	total    int64 // outages so far
}

// outageMemory is how long a tag that failed counts if it is not tried again.
const outageMemory = 10 * time.Second

func newOutage(log *zap.Logger, store string) *outage {
	return &outage{log: log.With(zap.String("store", store)), failing: make(map[string]time.Time)}
}

// recordFailure records that a call failed that had begun at the given time. A call that
// began before the store worked again belongs to the outage that is over.
func (o *outage) recordFailure(tag string, began time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.failing) == 0 {
		if began.Before(o.ended) {
			return
		}
		o.since, o.failures = now, 0
		o.total++
		o.log.Error("store fails", zap.String("tag", tag), zap.Error(err))
	}
	o.failing[tag] = now
	o.failures++
}

// recordSuccess records that a call worked.
func (o *outage) recordSuccess(tag string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failing) == 0 {
		return
	}
	now := time.Now()
	delete(o.failing, tag)
	for other, last := range o.failing {
		if now.Sub(last) > outageMemory {
			delete(o.failing, other)
		}
	}
	if len(o.failing) == 0 {
		o.ended = now
		o.log.Info("store works again", zap.Duration("after", now.Sub(o.since)), zap.Int("failures", o.failures))
	}
}

// figures reports whether the store fails now, and how many times it began to.
func (o *outage) figures() (current bool, total int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.failing) > 0, o.total
}
