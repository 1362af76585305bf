package enrich

import (
	"time"

	"go.uber.org/zap"
)

// outageLog logs one line when enriching starts to fail and one when it works again.
type outageLog struct {
	log      *zap.Logger
	explain  func(error) string
	since    time.Time // zero while all is well
	failures int
}

func (o *outageLog) reportFailure(err error) {
	if o.failures++; o.since.IsZero() {
		o.since = time.Now()
		o.log.Error("enriching fails, trying again until it works", zap.String("error", o.explain(err)))
	}
}

func (o *outageLog) reportSuccess() {
	if !o.since.IsZero() {
		o.log.Info("enriching works again", zap.Duration("after", time.Since(o.since)), zap.Int("failures", o.failures))
		o.since, o.failures = time.Time{}, 0
	}
}
