package worker

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// outage writes one line to the log when the store begins to fail and one when it
// works again, however many tries there are in between. An outage is over when
// every tag that failed has worked, or has not been tried for some time.
type outage struct {
	log *zap.Logger

	mu       sync.Mutex
	failing  map[string]time.Time // tag → latest failure
	since    time.Time            // the first failure
	ended    time.Time            // the end of the latest outage
	failures int
	total    int64 // outages, so far
}

// outageMemory is how long a tag that failed and is not tried again counts.
const outageMemory = 10 * time.Second

func newOutage(log *zap.Logger, store string) *outage {
	return &outage{log: log.With(zap.String("store", store)), failing: make(map[string]time.Time)}
}

// failed notes the failure of a call that began at the given time. One that began
// before the store worked again belongs to the outage that is over.
func (o *outage) failed(tag string, began time.Time, err error) {
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

// worked notes a success.
func (o *outage) worked(tag string) {
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

// count reports whether the store fails now, and how many times it began to.
func (o *outage) count() (current bool, total int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.failing) > 0, o.total
}
