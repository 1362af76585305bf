package register

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// Keys in the metadata of the register's stream. A poll reads them with the
// last sequence.
const (
	metaID = "idworker_id" // random, made with the stream
	// Random; all decisions so far, the latest last.
	metaDecisions = "idworker_decisions"
	metaFirst     = "idworker_first" // lowest first ID of a new tag
	// The latest decision, a space, and its time as in RFC 3339.
	metaDecided = "idworker_decided"
	// Processes whose claims the latest decision has made void, separated by
	// spaces.
	metaIgnored = "idworker_ignored"
	// Set while entries are raised for a decision: a random text, a space, and
	// the target of the raise, which is its lowest first ID.
	metaRaising = "idworker_raising"
)

// pollLeader polls the stream of a bucket. Its leader answers.
func pollLeader(ctx context.Context, js jetstream.JetStream, bucket string) (guard.Poll, error) {
	stream, err := js.Stream(ctx, kv.StreamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return guard.Poll{Missing: true}, nil
	}
	if err != nil {
		return guard.Poll{}, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return pollOf(stream.CachedInfo()), nil
}

func pollOf(info *jetstream.StreamInfo) guard.Poll {
	meta := info.Config.Metadata
	decisions := strings.Fields(meta[metaDecisions])
	_, target, _ := strings.Cut(meta[metaRaising], " ")
	return guard.Poll{
		Position: position.Position{ID: meta[metaID], Last: info.State.LastSeq},
		Entries:  info.State.Msgs,
		Replicas: info.Config.Replicas,
		Full:     info.Config.MaxBytes > 0 && int64(info.State.Bytes) > info.Config.MaxBytes/10*9,

		First:     max(1, numberOf(meta[metaFirst])),
		Decisions: decisions,
		Decided:   timeOf(decisions, meta[metaDecided]),
		Mark:      meta[metaRaising],
		Target:    numberOf(target),
		Ignored:   strings.Fields(meta[metaIgnored]),
	}
}

// numberOf returns a number, or 0.
func numberOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// timeOf returns the time of the latest decision, or zero if decided is not
// about that decision: nothing may be concluded from the time of another.
func timeOf(decisions []string, decided string) time.Time {
	decision, text, _ := strings.Cut(decided, " ")
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || len(decisions) == 0 || decision != decisions[len(decisions)-1] {
		return time.Time{}
	}
	return at
}
