package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/snowflake"
)

// server is asked for its time, and for when the clock bucket was created.
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

// reading is the server's time, and this process's before and after it was asked.
// The two can be far apart, if the process was stopped in between.
type reading struct {
	before, after, server time.Time
	created               time.Time // of the clock bucket
}

func (m *Manager) askServer(ctx context.Context, clock snowflake.Clock) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before := clockTime(clock)
	now, created, err := m.server.ask(ctx)
	read := reading{before: before, after: clockTime(clock), server: now, created: created}
	if err == nil {
		m.clockDiff.Store(int64(read.diff()))
	}
	return read, err
}

// clockTime is what the clock says.
func clockTime(clock snowflake.Clock) time.Time { return time.Unix(0, clock()).UTC() }
