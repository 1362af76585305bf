package worker

import (
	"context"
	"errors"
)

// ErrNotAnswering is the error of a process whose role answers no requests.
var ErrNotAnswering = errors.New("process does not answer requests")

// Direct answers requests that come to this process otherwise than by NATS,
// such as HTTP, from the same memory, with the same limits and figures. It may
// be used from many goroutines, and works for as long as its process does, also
// while NATS is away.
type Direct struct{ process *Process }

// Direct returns the direct way to the process's IDs. The process must have
// started, and have a role that answers.
func (p *Process) Direct() (*Direct, error) {
	if p.groups == nil {
		return nil, ErrNotAnswering
	}
	return &Direct{p}, nil
}

// Segment returns IDs of a tag, as the body of a reply by NATS has them; see
// package messages. Count is the body of a request: empty for one ID, or an
// ASCII decimal up to Config.MaxBatch. Kept is set if the IDs are kept for
// later, which those of a strict tag must not be.
//
// It takes Config.Wait at most. When ctx ends, the request is withdrawn, and
// the error is that of ctx. All other errors are of type [*messages.Error].
func (d *Direct) Segment(ctx context.Context, tag string, count []byte, kept bool) (reply []byte, err error) {
	if err := d.process.groups.segments.refuses(); err != nil {
		return nil, d.process.answers.RefuseSegment(err)
	}
	return d.process.answers.Segment(ctx, tag, count, kept)
}

// Snowflake returns snowflake IDs, as Segment returns those of tags.
func (d *Direct) Snowflake(_ context.Context, count []byte) (reply []byte, err error) {
	if err := d.process.groups.segments.refuses(); err != nil {
		return nil, d.process.answers.RefuseSnowflake(err)
	}
	g, err := d.process.groups.workerID.generator()
	if err != nil {
		return nil, d.process.answers.RefuseSnowflake(err)
	}
	return d.process.answers.Snowflake(count, g)
}
