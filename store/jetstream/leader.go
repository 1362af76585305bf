package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// leaderTimeout bounds a request whose context has no deadline, as the JetStream
// client does for its own.
const leaderTimeout = 5 * time.Second

// stored is what the leader holds for a key.
type stored struct {
	value    []byte
	revision uint64
	deleted  bool // the value is a marker that says so
}

// readLeader reads a key from the leader of the bucket's stream, or returns
// natsjs.ErrKeyNotFound.
//
// A KV reads by "direct get", which any replica answers, and one that lags does not
// know yet that a key exists. The KV API has no other read, so this is the request
// of the JetStream API beneath it that only the leader answers.
func (s *Store) readLeader(ctx context.Context, key string) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()

	request, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + s.bucket + "." + key})
	if err != nil {
		return stored{}, err
	}
	msg, err := s.js.Conn().RequestWithContext(ctx, s.api("STREAM.MSG.GET.KV_"+s.bucket), request)
	if err != nil {
		return stored{}, fmt.Errorf("read from the leader: %w", err)
	}
	var answer struct {
		Error   *natsjs.APIError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return stored{}, fmt.Errorf("read from the leader: %w", err)
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == natsjs.JSErrCodeMessageNotFound:
		return stored{}, natsjs.ErrKeyNotFound
	case answer.Error != nil:
		return stored{}, fmt.Errorf("read from the leader: %w", answer.Error)
	case m == nil:
		return stored{}, fmt.Errorf("read from the leader: %w", natsjs.ErrInvalidJetStreamResponse)
	default:
		deleted, err := isMarker(m.Header)
		return stored{value: m.Data, revision: m.Sequence, deleted: deleted}, err
	}
}

// isMarker reports whether a message's header makes it the marker of a key that was
// deleted, purged or expired.
func isMarker(header []byte) (bool, error) {
	if len(header) == 0 {
		return false, nil
	}
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return false, fmt.Errorf("read from the leader: %w", err)
	}
	op := h.Get("KV-Operation")
	return op == "DEL" || op == "PURGE" || h.Get(natsjs.MarkerReasonHeader) != "", nil
}

// api is the subject of a JetStream API call, in the domain or with the prefix that
// the JetStream context was made for.
func (s *Store) api(call string) string {
	switch o := s.js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API." + call
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "." + call
	default:
		return natsjs.DefaultAPIPrefix + call
	}
}
