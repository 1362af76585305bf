package streamread

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestOnlyTheNextMessageCounts: a lost or duplicate message, and that of
// another consumer, is an error.
func TestOnlyTheNextMessageCounts(t *testing.T) {
	t.Parallel()
	for name, meta := range map[string]nats.MsgMetadata{
		"lost one":         {Consumer: "c", Sequence: nats.SequencePair{Consumer: 5, Stream: 40}},
		"delivered twice":  {Consumer: "c", Sequence: nats.SequencePair{Consumer: 3, Stream: 30}},
		"another consumer": {Consumer: "d", Sequence: nats.SequencePair{Consumer: 4, Stream: 31}},
	} {
		p := &puller{consumer: "c", delivered: 3}
		if _, err := p.receive(&nats.Msg{}, &meta); !errors.Is(err, errUnreliable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := &puller{consumer: "c", delivered: 3}
	if msg, err := p.receive(&nats.Msg{}, &nats.MsgMetadata{Consumer: "c", Sequence: nats.SequencePair{Consumer: 4, Stream: 31}}); err != nil || msg.Sequence != 31 {
		t.Errorf("%+v, %v", msg, err)
	}
}
