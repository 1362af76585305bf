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
