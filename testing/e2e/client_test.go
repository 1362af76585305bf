package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// connect returns a connection that is closed when the test ends.
func connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, append([]nats.Option{nats.Name(t.Name())}, opts...)...)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// dial returns a client with a connection of its own.
func dial(t testing.TB, url string) *messages.Client {
	t.Helper()
	return messages.NewClient(connect(t, url), messages.DefaultPrefix)
}

func isNobody(err error) bool { return errors.Is(err, nats.ErrNoResponders) }

// flush returns when the server has handled all that was sent before.
func flush(t testing.TB, conn *nats.Conn) {
	t.Helper()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// rangesOf reads a reply without knowing how many IDs were asked for.
func rangesOf(data []byte) ([]messages.Range, error) {
	var n int64
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		var first, last int64
		if k, _ := fmt.Sscanf(string(line), "%d-%d", &first, &last); k == 2 {
			n += last - first
		}
		n++
	}
	return messages.DecodeRanges(data, n)
}
