package streamread

import (
	"context"

	"github.com/idworker/idworker/internal/subject"
)

// The bounds of reading ahead, in messages and in bytes.
const (
	minAhead   = 4
	maxAhead   = 256
	aheadBytes = 2 << 20
)

// ahead reads by requests to the leader alone. The first one finds the next message, wherever
// that is. Then the sequences behind it are asked for all at once: as many as pays off.
type ahead struct {
	messages []Message // that were read, and not returned
	window   uint64
}

// readAhead returns the next message.
func (r *Reader) readAhead(ctx context.Context) (Message, error) {
	if len(r.ahead.messages) == 0 {
		if err := r.fetch(ctx); err != nil {
			return Message{}, err
		}
	}
	msg := r.ahead.messages[0]
	r.ahead.messages = r.ahead.messages[1:]
	return msg, nil
}

func (r *Reader) fetch(ctx context.Context) error {
	name := r.stream.CachedInfo().Config.Name
	first, err := Next(ctx, r.js, name, r.filter, r.next)
	if err != nil {
		return err
	}
	r.ahead.window = max(r.ahead.window, minAhead)
	var sequences []uint64
	for seq := first.Sequence + 1; seq <= min(first.Sequence+r.ahead.window, r.through); seq++ {
		sequences = append(sequences, seq)
	}
	found, err := Many(ctx, r.js, name, sequences)
	if err != nil {
		return err
	}
	r.ahead.messages = append(r.ahead.messages[:0], first)
	bytes := 0
	for _, msg := range found {
		if msg != nil && subject.Covers(r.filter, msg.Subject) {
			r.ahead.messages = append(r.ahead.messages, *msg)
			bytes += len(msg.Data)
		}
	}
	if 2*len(r.ahead.messages) > len(sequences) && bytes < aheadBytes/2 {
		r.ahead.window = min(2*r.ahead.window, maxAhead)
	} else {
		r.ahead.window /= 2
	}
	return nil
}
