// Package leader reads messages of a stream where it is written.
//
// Other reads go by "direct get" where a stream allows it, and then replicas answer that
// lag, and mirrors that keep less: that they do not have a message does not mean that it is
// not there, or is there no more. The request of the JetStream API beneath is answered by the
// stream's leader only.
package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// timeout bounds a request whose context has no deadline, as the JetStream client does
// for its own.
const timeout = 5 * time.Second

// Message is a message as a stream keeps it.
type Message struct {
	Subject  string
	Sequence uint64
	Header   nats.Header // nil if there is none
	Data     []byte
}

// At reads the message with that sequence. Errors: jetstream.ErrMsgNotFound.
func At(ctx context.Context, js jetstream.JetStream, stream string, sequence uint64) (Message, error) {
	return get(ctx, js, stream, map[string]any{"seq": sequence})
}

// Last reads the last message on a subject, which may have wildcards. Errors:
// jetstream.ErrMsgNotFound.
func Last(ctx context.Context, js jetstream.JetStream, stream, subject string) (Message, error) {
	return get(ctx, js, stream, map[string]any{"last_by_subj": subject})
}

func get(ctx context.Context, js jetstream.JetStream, stream string, want map[string]any) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	fail := func(err error) (Message, error) {
		return Message{}, fmt.Errorf("read stream %s from its leader: %w", stream, err)
	}
	request, err := json.Marshal(want)
	if err != nil {
		return fail(err)
	}
	reply, err := js.Conn().RequestWithContext(ctx, api(js, "STREAM.MSG.GET."+stream), request)
	if err != nil {
		return fail(err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
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
	var header nats.Header
	if len(m.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return fail(err)
		}
	}
	return Message{m.Subject, m.Sequence, header, m.Data}, nil
}

// api is the subject of a JetStream API call, in the domain or with the prefix that
// the JetStream context was made for.
func api(js jetstream.JetStream, call string) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API." + call
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "." + call
	default:
		return jetstream.DefaultAPIPrefix + call
	}
}
