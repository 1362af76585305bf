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
	since    time.Time
	failures int
}

// outageMemory is how long a tag that failed and is not tried again counts.
const outageMemory = 10 * time.Second

func newOutage(log *zap.Logger, store string) *outage {
	return &outage{log: log.With(zap.String("store", store)), failing: make(map[string]time.Time)}
}

// failed notes a failure.
func (o *outage) failed(tag string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.failing) == 0 {
		o.since, o.failures = now, 0
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
		o.log.Info("store works again", zap.Duration("after", now.Sub(o.since)), zap.Int("failures", o.failures))
	}
}
