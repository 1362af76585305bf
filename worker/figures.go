package worker

import (
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/messages"
)

// requestFigures counts the requests for one kind of ID by outcome, and the time from a
// request's turn to its reply.
type requestFigures struct {
	outcomes [len(outcomes)]atomic.Int64
	ids      atomic.Int64 // handed out
	latency  histogram
}

// answered is the outcome of a request that got its IDs; others have the code of the
// reply.
const answered messages.Code = 0

// outcomes are all that a request can have.
var outcomes = [...]messages.Code{
	answered, messages.CodeMalformed, messages.CodeNoTag, messages.CodeStrict, messages.CodeBusy, messages.CodeUnavailable, messages.CodeExhausted,
}

// countAnswered counts a request that got n IDs.
func (f *requestFigures) countAnswered(n int64, took time.Duration) {
	f.outcomes[0].Add(1)
	f.ids.Add(n)
	f.latency.observe(took)
}

// countFailed counts a request that got an error.
func (f *requestFigures) countFailed(code messages.Code, took time.Duration) {
	for i, c := range outcomes {
		if c == code {
			f.outcomes[i].Add(1)
		}
	}
	f.latency.observe(took)
}
