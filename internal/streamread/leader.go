package streamread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// timeout bounds a request whose context has no deadline or a later deadline.
// It is the JetStream client's default for its own requests.
const timeout = 5 * time.Second

// Message is a message of a stream.
type Message struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Time     time.Time `json:"time"` // when it was stored
	// Nil if the message has no header or is Malformed.
	Header nats.Header `json:"-"`
	Data   []byte      `json:"data"`

	// The message has a header that cannot be decoded.
	Malformed bool `json:"-"`
}

// At reads the message with that sequence from the stream's leader, within 5
// seconds. Errors: jetstream.ErrMsgNotFound if the leader does not have it;
// after any other error the message may exist or not.
//
// It uses STREAM.MSG.GET, which only the leader answers. A "direct get" may be
// answered by a lagging replica or by a mirror that keeps less: a message
// missing there may exist.
func At(ctx context.Context, js jetstream.JetStream, stream string, sequence uint64) (Message, error) {
	return requestMessage(ctx, js, stream, map[string]any{"seq": sequence})
}

// Last reads the last message on a subject, which may have wildcards, within 5
// seconds. Errors as for [At].
func Last(ctx context.Context, js jetstream.JetStream, stream, subject string) (Message, error) {
	m, err := requestMessage(ctx, js, stream, map[string]any{"last_by_subj": subject})
	if m.Malformed {
		err = fmt.Errorf("read stream %s from its leader: message %d: %w", stream, m.Sequence, nats.ErrBadHeaderMsg)
	}
	return m, err
}

// Next reads the first message with at least that sequence whose subject
// matches a pattern, within 5 seconds. Errors as for [At].
func Next(ctx context.Context, js jetstream.JetStream, stream, subject string, sequence uint64) (Message, error) {
	return requestMessage(ctx, js, stream, map[string]any{"seq": sequence, "next_by_subj": subject})
}

func requestMessage(ctx context.Context, js jetstream.JetStream, stream string, want map[string]any) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	fail := func(err error) (Message, error) {
		return Message{}, fmt.Errorf("read stream %s from its leader: %w", stream, err)
	}
	request, err := json.Marshal(want)
	if err != nil {
		return fail(err)
	}
	reply, err := js.Conn().RequestWithContext(ctx, APISubject(js, "STREAM.MSG.GET."+stream), request)
	if err != nil {
		return fail(err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Message
			Encoded []byte `json:"hdrs"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return fail(err)
	}
	m := answer.Message
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Message{}, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return fail(answer.Error)
	case m == nil:
		return fail(jetstream.ErrInvalidJetStreamResponse)
	}
	if len(m.Encoded) > 0 {
		m.Header, err = nats.DecodeHeadersMsg(m.Encoded)
		m.Malformed = err != nil
	}
	return m.Message, nil
}

// atOnce is the number of requests of [Many] in flight at once.
const atOnce = 64

// Many reads the messages with those sequences concurrently. The entry of a
// message that the leader does not have is nil. After any error the others may
// exist or not.
func Many(ctx context.Context, js jetstream.JetStream, stream string, sequences []uint64) ([]*Message, error) {
	found := make([]*Message, len(sequences))
	requests, ctx := errgroup.WithContext(ctx)
	requests.SetLimit(atOnce)
	for i, sequence := range sequences {
		requests.Go(func() error {
			msg, err := At(ctx, js, stream, sequence)
			if err == nil {
				found[i] = &msg
			} else if errors.Is(err, jetstream.ErrMsgNotFound) {
				err = nil
			}
			return err
		})
	}
	return found, requests.Wait()
}

// APISubject returns the subject of a JetStream API call, in the domain or with
// the prefix of the JetStream context.
func APISubject(js jetstream.JetStream, call string) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API." + call
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "." + call
	default:
		return jetstream.DefaultAPIPrefix + call
	}
}
