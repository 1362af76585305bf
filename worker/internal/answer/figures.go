package answer

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// The metrics. docs/monitoring.md explains their use.
var (
	requestsMetric = metric.Declare("requests_total", "Requests answered, by kind of ID and reply code.", "kind", "code")
	idsMetric      = metric.Declare("ids_total", "IDs issued, by kind.", "kind")
	durationMetric = metric.Declare("request_duration_seconds", "Time that requests were parked; 0 if answered at once.", "kind")
)

// noError is the outcome of a request that got its IDs. Other outcomes are
// reply codes.
const noError messages.Code = 0

// outcomes are all possible outcomes of a request.
var outcomes = [...]messages.Code{
	noError, messages.CodeMalformed, messages.CodeNoTag, messages.CodeStrict, messages.CodeBusy, messages.CodeUnavailable, messages.CodeExhausted,
}

// Outcomes is the number of outcomes of requests.
const Outcomes = len(outcomes)

// figures counts the requests for one kind of ID. The endpoints and the direct
// requests have separate counters, with the rarely used fields between them: a
// cache line that many goroutines write costs more than the rest of a request.
type figures struct {
	byNATS replyCounts
	wait   metric.Histogram // of parked requests
	log    requestLog
	direct replyCounts
	parked replyCounts
}

// replyCounts counts replies. A striped counter, such as that of xsync, costs six
// times as much with a single writer.
type replyCounts struct {
	ids      atomic.Int64
	outcomes [Outcomes]atomic.Int64
}

// answered counts a reply with n IDs.
func (c *replyCounts) answered(n int64) {
	c.outcomes[0].Add(1)
	c.ids.Add(n)
}

// refused counts an error reply, and returns it.
func (c *replyCounts) refused(err error) *messages.Error {
	reply := wireError(err)
	for i, code := range outcomes {
		if code == reply.Code {
			c.outcomes[i].Add(1)
		}
	}
	return reply
}

// answeredAfter counts the reply to a parked request.
func (f *figures) answeredAfter(waited time.Duration, ids []store.Segment) {
	var n int64
	for _, s := range ids {
		n += s.Len()
	}
	f.wait.Observe(waited)
	f.parked.answered(n)
}

// refusedAfter counts the error reply to a parked request, and returns it.
func (f *figures) refusedAfter(waited time.Duration, err error) *messages.Error {
	f.wait.Observe(waited)
	return f.parked.refused(err)
}

// Requests returns the number of requests of both kinds by outcome: ok, or the
// code of the error reply. It omits outcomes without requests.
func (a *Answerer) Requests() map[string]int64 {
	requests := make(map[string]int64)
	for i, code := range outcomes {
		if n := a.segments.outcome(i) + a.snowflakes.outcome(i); n > 0 {
			requests[outcomeName(code)] = n
		}
	}
	return requests
}

// Collect sends the metrics of requests.
func (a *Answerer) Collect(to metric.Sink) {
	a.segments.collect(to, "segment")
	a.snowflakes.collect(to, "snowflake")
}

func (f *figures) collect(to metric.Sink, kind string) {
	var instant int64
	for i, code := range outcomes {
		to.Counter(requestsMetric, f.outcome(i), kind, outcomeName(code))
		instant += f.byNATS.outcomes[i].Load() + f.direct.outcomes[i].Load()
	}
	to.Counter(idsMetric, f.byNATS.ids.Load()+f.direct.ids.Load()+f.parked.ids.Load(), kind)
	to.Histogram(durationMetric, &f.wait, instant, kind)
}

// outcome returns the number of requests with an outcome.
func (f *figures) outcome(i int) int64 {
	return f.byNATS.outcomes[i].Load() + f.direct.outcomes[i].Load() + f.parked.outcomes[i].Load()
}

// outcomeName is the label of an outcome.
func outcomeName(code messages.Code) string {
	if code == noError {
		return "ok"
	}
	return strconv.Itoa(int(code))
}
