package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// server tells its time, and about the stream of the clock bucket.
type server interface {
	ask(ctx context.Context) (answer, error)
}

// answer is what the leader of the clock bucket's stream says.
type answer struct {
	now     time.Time
	created time.Time // of the stream; depends on who leads
	last    uint64    // sequence of the stream
}

// streamServer asks the leader of the clock bucket's stream.
type streamServer struct{ stream jetstream.Stream }

func (s streamServer) ask(ctx context.Context) (answer, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return answer{}, fmt.Errorf("stream %s: %w", s.stream.CachedInfo().Config.Name, err)
	}
	return answer{info.TimeStamp, info.Created, info.State.LastSeq}, nil
}
