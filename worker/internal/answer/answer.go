package answer

import (
	"cmp"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/oneline"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// Config configures an [Answerer].
type Config struct {
	Prefix   messages.Prefix
	MaxBatch int64      // IDs per request, at most
	Requests *nats.Conn // for the replies to parked requests

	// Slow is how long a request may wait for a segment without a line in the
	// log.
	Slow time.Duration
	Log  *zap.Logger // none if nil
}

// Answerer answers the requests of a process. It is safe for concurrent use.
type Answerer struct {
	segments, snowflakes figures

	cfg     Config
	alloc   *allocator.Allocator
	created time.Time
}

// New returns an Answerer that answers from an allocator's buffers. Without an
// allocator, it answers requests for snowflake IDs only.
func New(cfg Config, alloc *allocator.Allocator) *Answerer {
	log := cmp.Or(cfg.Log, zap.NewNop())
	a := &Answerer{cfg: cfg, alloc: alloc, created: time.Now()}
	a.segments.log.open(log, "segment")
	a.snowflakes.log.open(log, "snowflake")
	return a
}

// now is the time since the Answerer was made. It is smaller than a
// [time.Time], and cheaper to read.
func (a *Answerer) now() time.Duration { return time.Since(a.created) }

// takeOrPark handles a request that the current segment could not answer. If it
// returns neither IDs nor an error, the request is parked, and from gets the
// reply.
func (a *Answerer) takeOrPark(tag string, n int64, kept bool, from any) ([]store.Segment, error) {
	if err := messages.CheckTag(tag); err != nil {
		return nil, err
	}
	return a.alloc.TakeOrPark(allocator.Request{Tag: tag, N: n, Kept: kept, From: from})
}

// appendSegments appends the lines of a reply.
func appendSegments(reply []byte, ids []store.Segment) []byte {
	for _, s := range ids {
		reply = messages.AppendRange(reply, messages.Range{First: s.First, Last: s.End - 1})
	}
	return reply
}

// appendSnowflakes appends the lines of a reply.
func appendSnowflakes(reply []byte, ids []snowflake.IDRange) []byte {
	for _, r := range ids {
		reply = messages.AppendRange(reply, messages.Range{First: int64(r.First), Last: int64(r.Last)})
	}
	return reply
}

// ErrOverloaded is the reply to requests that queued too long.
var ErrOverloaded = errors.New("overloaded: the request queued for more than 1s")

// codes maps errors to the codes of the wire contract. All others are
// unavailable.
var codes = [...]struct {
	err  error
	code messages.Code
}{
	{messages.ErrCount, messages.CodeMalformed},
	{messages.ErrTag, messages.CodeMalformed},
	{store.ErrNoTag, messages.CodeNoTag},
	{store.ErrExhausted, messages.CodeExhausted},
	{allocator.ErrBusy, messages.CodeBusy},
	{allocator.ErrStrict, messages.CodeStrict},
	{ErrOverloaded, messages.CodeBusy},
	{snowflake.ErrAhead, messages.CodeBusy},
	{snowflake.ErrExhausted, messages.CodeExhausted},
}

// maxText bounds the text of an error reply, in bytes.
const maxText = 1000

// wireError returns the error reply for an error. It returns a
// [*messages.Error] unchanged.
func wireError(err error) *messages.Error {
	if reply, ok := errors.AsType[*messages.Error](err); ok {
		return reply
	}
	reply := &messages.Error{Code: messages.CodeUnavailable, Text: oneline.Cut(err.Error(), maxText)}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			reply.Code = c.code
			break
		}
	}
	if count, ok := errors.AsType[*messages.CountError](err); ok {
		reply.MaxCount = count.Limit
	}
	return reply
}
