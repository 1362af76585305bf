package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
)

// server tells its time, and about the streams of the two buckets.
type server interface {
	ask(ctx context.Context) (answer, error)

	// leaseTTL is after how long the bucket of leases forgets an entry now.
	leaseTTL(ctx context.Context) (time.Duration, error)
}

// answer is what the leader of the clock bucket's stream says.
type answer struct {
	now  time.Time
	last uint64 // sequence of the stream
}

// streamServer asks the leaders of the two buckets' streams.
type streamServer struct{ clocks, leases jetstream.Stream }

func (s streamServer) ask(ctx context.Context) (answer, error) {
	info, err := askStream(ctx, s.clocks)
	if err != nil {
		return answer{}, err
	}
	return answer{info.TimeStamp, info.State.LastSeq}, nil
}

func (s streamServer) leaseTTL(ctx context.Context) (time.Duration, error) {
	info, err := askStream(ctx, s.leases)
	if err != nil {
		return 0, err
	}
	return info.Config.MaxAge, nil
}

func askStream(ctx context.Context, s jetstream.Stream) (*jetstream.StreamInfo, error) {
	info, err := s.Info(ctx)
	if err == nil && info.Cluster != nil && info.Cluster.Leader == "" {
		err = leader.ErrNone // its answer may be old
	}
	if err != nil {
		err = fmt.Errorf("stream %s: %w", s.CachedInfo().Config.Name, err)
	}
	return info, err
}
