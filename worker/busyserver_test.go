package worker_test

import (
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/worker"
)

// busy is a dialer to a server that answers every other time.
type busy struct{ dials atomic.Int64 }

func (b *busy) Dial(network, address string) (net.Conn, error) {
	if b.dials.Add(1)%2 == 0 {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
	}
	return net.DialTimeout(network, address, time.Second)
}

// TestStartAtABusyServer: where many processes start at once, connections time
// out. They are retried.
func TestStartAtABusyServer(t *testing.T) {
	t.Parallel()
	ns, dialer := worker.NewAccount(t), new(busy)
	w, err := startProcess(t.Context(), worker.Config{
		Role: worker.RoleWorker, Requests: ns.Connect(t, nats.SetCustomDialer(dialer)), Control: ns.Connect(t),
		Version: "0.0.1", Log: zaptest.NewLogger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, w)
	if n := dialer.dials.Load(); n < 3 {
		t.Errorf("only %d dials", n)
	}
}
