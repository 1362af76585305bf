package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream is for a test's own requests, which wait as long as a slow machine
// takes: by default, the client gives up after 5 seconds. Options override
// this.
func JetStream(t testing.TB, conn *nats.Conn, opts ...jetstream.JetStreamOpt) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn, append([]jetstream.JetStreamOpt{jetstream.WithDefaultTimeout(Patience)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// ReadStream reads the messages that a stream has from a sequence on, if their
// subjects match.
func ReadStream(t testing.TB, js jetstream.JetStream, stream string, from uint64, filter string) (all []jetstream.Msg) {
	t.Helper()
	c, err := js.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range info.NumPending {
		msg, err := messages.Next(jetstream.NextMaxWait(Patience))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}
