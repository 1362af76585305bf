package worker

import (
	"context"
	"errors"
)

// errSnowflakeOnly is the reason why a process of the role snowflake rejects
// requests for segments. Another process may answer a retry.
var errSnowflakeOnly = errors.New("this process issues snowflake IDs only")

// ErrNotAnswering is the error of a process whose role answers no requests.
var ErrNotAnswering = errors.New("process does not answer requests")

// Direct answers requests that do not come over NATS, such as HTTP requests,
// from the same buffers, with the same limits and metrics. It is safe for
// concurrent use, and works as long as its process runs, also while NATS is
// unreachable.
type Direct struct{ process *Process }

// Direct returns the direct way to the process's IDs. The process must be
// started, and its role must answer requests.
func (p *Process) Direct() (*Direct, error) {
	if p.groups == nil {
		return nil, ErrNotAnswering
	}
	return &Direct{p}, nil
}

// Segment returns IDs of a tag, as the body of a NATS reply; see package
// messages. Count is the body of a request: empty for one ID, or an ASCII
// decimal up to Config.MaxBatch. Kept declares that the IDs are kept for later,
// which strict tags refuse. Traceparent names the caller's trace in the log; it
// may be empty, and passes [messages.DecodeTraceparent].
//
// It takes at most Config.Wait. When ctx ends, the request is withdrawn, and
// the error is that of ctx. All other errors are of type [*messages.Error].
func (d *Direct) Segment(ctx context.Context, tag string, count []byte, kept bool, traceparent string) (reply []byte, err error) {
	if d.process.groups.segments == nil {
		return nil, d.process.answers.RefuseSegment(tag, traceparent, errSnowflakeOnly)
	}
	if err := d.process.groups.refuses(); err != nil {
		return nil, d.process.answers.RefuseSegment(tag, traceparent, err)
	}
	d.process.barrier.Pass()
	return d.process.answers.Segment(ctx, tag, count, kept, traceparent)
}

// Snowflake returns snowflake IDs in the same form as Segment.
func (d *Direct) Snowflake(_ context.Context, count []byte, traceparent string) (reply []byte, err error) {
	if err := d.process.groups.refuses(); err != nil {
		return nil, d.process.answers.RefuseSnowflake(traceparent, err)
	}
	g, err := d.process.groups.workerID.generator()
	if err != nil {
		return nil, d.process.answers.RefuseSnowflake(traceparent, err)
	}
	return d.process.answers.Snowflake(count, g, traceparent)
}
