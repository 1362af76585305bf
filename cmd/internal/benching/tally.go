package benching

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/internal/latency"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// tally is what became of the requests.
type tally struct {
	began  time.Time
	record *history.Writer // nil: nothing is recorded

	mu       sync.Mutex
	checker  *history.Checker
	took     latency.Histogram // of requests that were answered
	requests int64
	ids      int64
	failures map[string]*Failure
	latest   error // of a request that failed
	broken   Broken
}

// Failure is how often requests failed in a way.
type Failure struct {
	Count int64  `json:"count"`
	First string `json:"first"` // the first error
}

// Broken are answers that broke a promise.
type Broken struct {
	Duplicates int64    `json:"duplicates"` // ranges with an ID that had been there before
	OutOfOrder int64    `json:"out_of_order"`
	NoReplies  int64    `json:"no_replies"` // not what was asked for
	Findings   []string `json:"findings"`   // the first ten
}

// maxFindings is how many findings are kept.
const maxFindings = 10

func (b *Broken) any() bool { return b.Duplicates+b.OutOfOrder+b.NoReplies > 0 }

func (b *Broken) add(wrong error) {
	switch {
	case errors.Is(wrong, history.ErrDuplicate):
		b.Duplicates++
	case errors.Is(wrong, history.ErrOrder):
		b.OutOfOrder++
	default:
		b.NoReplies++
	}
	if len(b.Findings) < maxFindings {
		b.Findings = append(b.Findings, wrong.Error())
	}
}

func newTally(layout snowflake.Layout, record *history.Writer) *tally {
	return &tally{
		began: time.Now(), record: record, checker: history.NewChecker(layout),
		failures: make(map[string]*Failure), broken: Broken{Findings: []string{}},
	}
}

// now is the time since the run began.
func (t *tally) now() time.Duration { return time.Since(t.began) }

// add takes a call with its answer or error. It is received under the lock, so that calls are in the order of their
// answers: a moment late, which may hide that an answer is out of order, and invents nothing. Took is what counts
// as latency.
func (t *tally) add(call *history.Call, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call.Received = t.now()
	t.requests++
	if err != nil {
		call.Ranges, call.Err = nil, err.Error()
		t.fail(err)
	} else {
		t.took.Add(took)
		t.ids += call.Count
		for _, wrong := range t.checker.Check(call, "") {
			t.broken.add(wrong)
		}
	}
	if t.record != nil {
		t.record.Write(call)
	}
}

func (t *tally) fail(err error) {
	t.latest = err
	reason := reasonOf(err)
	f := t.failures[reason]
	if f == nil {
		f = &Failure{First: err.Error()}
		t.failures[reason] = f
	}
	f.Count++
}

// counts are how many requests there were, and how many IDs came.
func (t *tally) counts() (requests, ids int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests, t.ids
}

// reasonOf is the code of an error reply, or what else kept IDs from coming. The error of a call whose time
// was over is that, and the latest reason.
func reasonOf(err error) string {
	var reply *messages.Error
	if errors.As(err, &reply) {
		return strconv.Itoa(int(reply.Code))
	}
	for _, reason := range []struct {
		err  error
		text string
	}{
		{nats.ErrNoResponders, "nobody to ask"},
		{nats.ErrDisconnected, "disconnected"},
		{nats.ErrTimeout, "no answer"},
		{context.DeadlineExceeded, "no answer"},
		{messages.ErrReply, "malformed answer"},
	} {
		if errors.Is(err, reason.err) {
			return reason.text
		}
	}
	return "other"
}
