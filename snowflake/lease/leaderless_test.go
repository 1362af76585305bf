package lease

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
)

// leaderless is a stream whose replica answers without a leader.
type leaderless struct{ jetstream.Stream }

func (leaderless) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{}}, nil
}

func (leaderless) CachedInfo() *jetstream.StreamInfo { return &jetstream.StreamInfo{} }

// TestAnswerWithoutALeaderCountsForNothing: a server that was paused gives such
// an answer.
func TestAnswerWithoutALeaderCountsForNothing(t *testing.T) {
	s := streamServer{leaderless{}, leaderless{}}
	if _, err := s.state(t.Context()); !errors.Is(err, kv.ErrNoLeader) {
		t.Error(err)
	}
	if _, err := s.leaseTTL(t.Context()); !errors.Is(err, kv.ErrNoLeader) {
		t.Error(err)
	}
}
