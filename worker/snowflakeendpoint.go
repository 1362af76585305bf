package worker

import (
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// snowflakeEndpoint answers requests for snowflake IDs with one worker ID. The next worker
// ID gets an endpoint of its own, because this one may still be answering requests that
// had been delivered to it. NATS calls it from one goroutine.
type snowflakeEndpoint struct {
	frame
	generator *snowflake.Generator // revoked when the worker ID is lost
	ranges    []snowflake.Range    // reused
	buf       []byte               // for replies; NATS copies them
}

// Handle is the micro.Handler.
func (e *snowflakeEndpoint) Handle(req micro.Request) {
	r, n, ok := e.enter(req, req.Reply(), req.Data())
	if !ok {
		return
	}
	var err error
	if e.ranges, err = e.generator.NextN(e.ranges[:0], n); err != nil {
		r.fail(err)
		return
	}
	e.buf = appendSnowflakes(e.buf[:0], e.ranges)
	r.answer(e.buf, n)
}

func appendSnowflakes(reply []byte, ids []snowflake.Range) []byte {
	for _, r := range ids {
		reply = messages.AppendRange(reply, messages.Range{First: int64(r.First), Last: int64(r.Last)})
	}
	return reply
}
