package messages_test

import (
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// virtual is a NATS server in virtual time. Messages take no time there, and
// clients wait exactly as long as configured.
type virtual struct{ *server.Server }

// virtually runs a test in virtual time. The test must not call Flush, Request
// or Drain of a connection, nor make it reconnect: nats.go keeps the timers of
// these for later calls, which may be in another bubble.
func virtually(t *testing.T, test func(t *testing.T, srv virtual)) {
	t.Helper()
	t.Parallel()
	virtuallyAlone(t, test)
}

// virtuallyAlone is virtually without parallel tests: for measurements of the
// whole process.
func virtuallyAlone(t *testing.T, test func(t *testing.T, srv virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() {
			srv.Shutdown()
			srv.WaitForShutdown()
		})
		test(t, virtual{srv})
	})
}

func (v virtual) Connect(t testing.TB) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(v), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
