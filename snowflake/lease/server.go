package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// server tells its time, and when the clock bucket was created.
type server interface {
	ask(ctx context.Context) (now, created time.Time, err error)
}

// streamServer asks the leader of the clock bucket's stream.
type streamServer struct{ stream jetstream.Stream }

func (s streamServer) ask(ctx context.Context) (now, created time.Time, err error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return now, created, fmt.Errorf("stream %s: %w", s.stream.CachedInfo().Config.Name, err)
	}
	return info.TimeStamp, info.Created, nil
}
