package messages_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/memory"
)

// TestClientWaitsCheaply: a retrying call takes little memory. Many calls retry
// when the service is slow; half a megabyte for each made it slower still.
func TestClientWaitsCheaply(t *testing.T) {
	const calls, most = 50, 64 << 10
	virtuallyAlone(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		respond(t, nc, "order", func(number int64, req *nats.Msg) {
			if number%2 == 0 {
				send(t, req, message("1", "", ""))
			}
		})
		bytes := memory.Allocated(func() {
			for range calls {
				if _, err := client.Next(within(t, long), "order"); err != nil {
					t.Fatal(err)
				}
			}
		})
		t.Logf("%d bytes a call", bytes/calls)
		if bytes/calls > most {
			t.Errorf("%d bytes a call that asks again, want %d at most", bytes/calls, most)
		}
	})
}
