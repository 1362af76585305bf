package worker

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
)

// requestFigures counts the requests of one endpoint by outcome, and the time from
// when it looked at them to the reply.
type requestFigures struct {
	outcomes [len(outcomes)]atomic.Int64
	ids      atomic.Int64 // handed out
	latency  histogram
}

// answered stands for a request that got its IDs, where others have their code.
const answered messages.Code = 0

// outcomes are all there are.
var outcomes = [...]messages.Code{
	answered, messages.CodeMalformed, messages.CodeNoTag, messages.CodeBusy, messages.CodeUnavailable, messages.CodeExhausted,
}

// processStart is what moments are told from: the time since then is cheaper to get
// than the time of day.
var processStart = time.Now()

// elapsed is a moment for requestFigures.
func elapsed() time.Duration { return time.Since(processStart) }

// timedEvery is how many requests that are answered from memory share one reading of
// the clock, which takes longer than the rest. They are alike, all within microseconds.
const timedEvery = 16

// stopwatch times the requests of an endpoint, which has one goroutine.
type stopwatch struct {
	turn uint
	last time.Duration
}

// start returns the moment at which a request begins; 0 if it is not timed.
func (s *stopwatch) start() (began time.Duration) {
	s.turn++
	if s.turn%timedEvery != 1 {
		return 0
	}
	return elapsed()
}

// took is how long a request took, or the one that was timed last.
func (s *stopwatch) took(began time.Duration) time.Duration {
	if began != 0 {
		s.last = elapsed() - began
	}
	return s.last
}

// gave notes a request that got n IDs.
func (f *requestFigures) gave(n int64, took time.Duration) {
	f.outcomes[0].Add(1)
	f.ids.Add(n)
	f.latency.observe(took)
}

// failed notes a request that got an error.
func (f *requestFigures) failed(code messages.Code, took time.Duration) {
	for i, c := range outcomes {
		if c == code {
			f.outcomes[i].Add(1)
		}
	}
	f.latency.observe(took)
}

// fail answers a request with an error, and notes it.
func (f *requestFigures) fail(req micro.Request, err error, took time.Duration) {
	code, text := wireError(err)
	_ = req.Error(strconv.Itoa(int(code)), text, nil) // fails only with the connection
	f.failed(code, took)
}
