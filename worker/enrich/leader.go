package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// leader reads messages of a stream where it is written. A stream that allows direct gets
// would let replicas that lag answer too, and mirrors that keep less: that they do not
// have a message does not mean that it is gone.
type leader struct {
	js     jetstream.JetStream
	stream string
}

// wanted names a message: by its sequence, or as the last one on a subject.
type wanted struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
}

// stored is a message as the server keeps it.
type stored struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Header  []byte `json:"hdrs"`
	Data    []byte `json:"data"`
}

// get reads a message. If there is none, the error is jetstream.ErrMsgNotFound.
func (l leader) get(ctx context.Context, want wanted) (event, error) {
	request, err := json.Marshal(want)
	if err != nil {
		return event{}, err
	}
	reply, err := l.js.Conn().RequestWithContext(ctx, l.api("STREAM.MSG.GET."+l.stream), request)
	if err != nil {
		return event{}, err
	}
	var answer struct {
		Message *stored             `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(reply.Data, &answer); {
	case err != nil:
		return event{}, fmt.Errorf("answer of the server: %w", err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return event{}, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return event{}, answer.Error
	case answer.Message == nil:
		return event{}, errors.New("answer of the server: no message")
	}
	return answer.Message.event()
}

// api is the subject of a JetStream API call, in the domain or with the prefix that the
// JetStream context was made for.
func (l leader) api(call string) string {
	switch o := l.js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API." + call
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "." + call
	default:
		return jetstream.DefaultAPIPrefix + call
	}
}

func (s *stored) event() (event, error) {
	e := event{seq: s.Seq, subject: s.Subject, data: s.Data}
	if len(s.Header) == 0 {
		return e, nil
	}
	header, err := nats.DecodeHeadersMsg(s.Header)
	if err != nil {
		return event{}, fmt.Errorf("header of sequence %d: %w", s.Seq, err)
	}
	e.header = header
	return e, nil
}
