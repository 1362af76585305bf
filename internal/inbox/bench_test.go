package inbox_test

import (
	"testing"

	"github.com/idworker/idworker/internal/inbox"
	"github.com/idworker/idworker/testing/natstest"
)

// BenchmarkOpen is what each request of a client costs beside its messages.
func BenchmarkOpen(b *testing.B) {
	conn := natstest.Start(b).Connect(b)
	b.ReportAllocs()
	for b.Loop() {
		box, err := inbox.Open(conn, 16)
		if err != nil {
			b.Fatal(err)
		}
		box.Unsubscribe()
	}
}
