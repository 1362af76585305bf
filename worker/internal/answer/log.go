package answer

import (
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/messages"
)

// requestLog logs requests for one kind of ID that were refused, or that waited
// for a segment, with the trace that the caller sent. Replies from a buffer do
// not reach it.
//
// Each outcome has a limit of its own: a flood of bad requests fills neither the
// log nor the limit of other failures. The next line of an outcome has the number
// of requests that were left out.
type requestLog struct {
	to  *zap.Logger
	due [Outcomes]logLimit
}

const (
	logAtOnce = 10              // lines of an outcome
	logEvery  = 6 * time.Second // a further line
)

// logLimit limits the lines of an outcome.
type logLimit struct {
	rate    *rate.Limiter
	omitted atomic.Int64
}

func (l *requestLog) open(to *zap.Logger, kind string) {
	l.to = to.With(zap.String("kind", kind))
	for i := range l.due {
		l.due[i].rate = rate.NewLimiter(rate.Every(logEvery), logAtOnce)
	}
}

// admit reports whether a line of an outcome is due, and how many were left out
// before it.
func (l *requestLog) admit(outcome messages.Code) (omitted int64, ok bool) {
	// The code of a newer loader may be no outcome here.
	i := slices.Index(outcomes[:], outcome)
	if i < 0 {
		i = slices.Index(outcomes[:], messages.CodeUnavailable)
	}
	due := &l.due[i]
	if !due.rate.Allow() {
		due.omitted.Add(1)
		return 0, false
	}
	return due.omitted.Swap(0), true
}

// refused logs a refused request. waited is 0 if it was not parked.
func (l *requestLog) refused(tag, traceparent string, waited time.Duration, reply *messages.Error) {
	if omitted, ok := l.admit(reply.Code); ok {
		l.write("request refused", tag, traceparent, waited, omitted, zap.Int("code", int(reply.Code)), zap.String("error", reply.Text))
	}
}

// slow logs a parked request that was answered after a long time.
func (l *requestLog) slow(tag, traceparent string, waited time.Duration) {
	if omitted, ok := l.admit(noError); ok {
		l.write("request waited for a segment", tag, traceparent, waited, omitted)
	}
}

// write writes a line. The tag may be malformed, and of any length.
func (l *requestLog) write(message, tag, traceparent string, waited time.Duration, omitted int64, more ...zap.Field) {
	var fields []zap.Field
	if tag != "" {
		fields = append(fields, zap.String("tag", tag[:min(len(tag), messages.MaxTagLen)]))
	}
	fields = append(fields, more...)
	if waited > 0 {
		fields = append(fields, zap.Duration("waited", waited))
	}
	if traceparent != "" {
		fields = append(fields, zap.String(messages.TraceparentHeader, traceparent))
	}
	if omitted > 0 {
		fields = append(fields, zap.Int64("omitted", omitted))
	}
	l.to.Info(message, fields...)
}
