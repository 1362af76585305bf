package register

import (
	"context"
	"errors"
	"time"
)

// Mark is the mark of a raise in the metadata of the register's stream. While it
// stands, no loader grants.
type Mark struct {
	s      *Register
	text   string
	target int64
	floor  int64 // the highest that this command has read or written
}

// MarkOptions are the options of [Register.Mark].
type MarkOptions struct {
	// Over replaces the mark of another command, by a higher target: entries may
	// have been raised to that of the other. It adopts the present state of the
	// register, which may have regressed. Only a raise of all tags may do that.
	Over bool

	// Alone means that no other process is connected, so no permits are valid.
	Alone bool
}

// Decision is what [Mark.Finish] writes.
type Decision struct {
	Time    time.Time
	Earlier []string // earlier decisions that the register may lack
}

var (
	// ErrOther reports that another administrator is raising the tags.
	ErrOther = errOther

	// ErrUnmarked means that the mark is gone: the register was restored, or
	// another command has decided. The caller starts over, unless it counts by a
	// number, which would count from another state.
	ErrUnmarked = errUnmarked
)

// Mark marks the register as being raised to a target, which has to lie above
// every earlier one. Then it waits until no write with an earlier permit can be
// granted any more. Errors: [ErrRaising] for another command's mark, [ErrOther],
// [ErrUnmarked], and [store.ErrBadTag] for a target that is too low.
func (s *Register) Mark(ctx context.Context, target int64, o MarkOptions) (*Mark, error) {
	return nil, errors.ErrUnsupported
}

// Target returns the target, which is higher than wanted if the mark of another
// command was replaced.
func (m *Mark) Target() int64 { return m.target }

// Check returns an error unless the mark stands.
func (m *Mark) Check(ctx context.Context) error { return errors.ErrUnsupported }

// Finish ends the raise. If the work under the mark failed, or the mark is gone,
// it returns that error, and nothing is decided. Otherwise it writes a decision:
// stopped loaders resume, and names without an entry begin at the target. Then
// it announces the decision to workers.
func (m *Mark) Finish(ctx context.Context, worked error, d Decision) error {
	return errors.ErrUnsupported
}

// OpenToRaise opens a register that may have regressed, or is missing, to raise
// it; see [Decide].
func OpenToRaise(ctx context.Context, cfg Config, replicas int, first uint64, alone bool) (*Register, error) {
	return Decide(ctx, cfg, replicas, first, alone)
}
