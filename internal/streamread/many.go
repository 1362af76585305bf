package streamread

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// under is how many requests of [Many] are under way at once.
const under = 64

// Many reads the messages with those sequences, many at a time. The entry of a message that
// the leader does not have is nil. Any error means that this is not known of all of them.
func Many(ctx context.Context, js jetstream.JetStream, stream string, sequences []uint64) ([]*Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := make([]*Message, len(sequences))
	var readers sync.WaitGroup
	for first := range min(under, len(sequences)) {
		readers.Go(func() {
			for i := first; i < len(sequences) && ctx.Err() == nil; i += under {
				switch msg, err := At(ctx, js, stream, sequences[i]); {
				case err == nil:
					found[i] = &msg
				case !errors.Is(err, jetstream.ErrMsgNotFound):
					cancel(err)
				}
			}
		})
	}
	readers.Wait()
	return found, context.Cause(ctx)
}
