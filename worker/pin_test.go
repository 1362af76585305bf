package worker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestPinnedStart: a process does not start without its pinned installation, nor
// in another one, and then creates nothing.
func TestPinnedStart(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	js := newJetStream(t, net)
	for _, role := range []worker.Role{worker.RoleWorker, worker.RoleSnowflake} {
		var wrong *agreement.PinError
		_, err := startProcess(t.Context(), configure(t, net, worker.Config{Role: role, Installation: "pinned"}))
		if !errors.As(err, &wrong) || wrong.Found != "" {
			t.Errorf("%s without an installation: %v", role, err)
		}
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("%s was created", name)
	}
	if err := agreement.Begin(t.Context(), js, messages.DefaultPrefix, 1, "other"); err != nil {
		t.Fatal(err)
	}
	var wrong *agreement.PinError
	_, err := startProcess(t.Context(), configure(t, net, worker.Config{Role: worker.RoleWorker, Installation: "pinned"}))
	if !errors.As(err, &wrong) || wrong.Found != "other" {
		t.Errorf("in another installation: %v", err)
	}
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, Installation: "other"})
	if w.Installation() != "other" {
		t.Errorf("belongs to %s", w.Installation())
	}
}

// TestPinnedReconnect: a running process notices at a reconnect that its
// installation is gone, and serves from its buffers. It stands by in another
// one, and comes back with its own.
func TestPinnedReconnect(t *testing.T) {
	t.Parallel()
	var data string
	srv := natstest.Start(t, func(o *server.Options) { data = o.StoreDir })
	js := newJetStream(t, srv)
	if err := agreement.Begin(t.Context(), js, messages.DefaultPrefix, 1, "pinned"); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, srv, 1)
	createTags(t, s, 10, "order")
	w := startWorker(t, srv, worker.Config{Store: s, Installation: "pinned"})
	c := newClient(t, srv)
	if _, err := c.ask("order", 1); err != nil {
		t.Fatal(err)
	}
	// replace restarts the server on other data, or on none.
	replace := func(keep, with string) {
		t.Helper()
		srv.Stop()
		err := os.Rename(data, keep)
		if err == nil && with != "" {
			err = os.Rename(with, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		srv.Restart()
	}
	pinError := func(err error) *agreement.PinError {
		var wrong *agreement.PinError
		errors.As(err, &wrong)
		return wrong
	}
	for _, name := range []string{"other", "pinned"} { // a lost installation can be made again
		kept := filepath.Join(t.TempDir(), "kept")
		replace(kept, "")
		natstest.Eventually(t, "the loss is noticed", func() bool { e := pinError(w.Degraded()); return e != nil && e.Found == "" })
		natstest.Eventually(t, "an answer from the buffer", func() bool { _, err := c.try("order", 1); return err == nil })
		if err := agreement.Begin(t.Context(), newJetStream(t, srv), messages.DefaultPrefix, 1, name); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "it stands by", func() bool { e := pinError(w.Ready()); return e != nil && e.Found == name })
		replace(filepath.Join(t.TempDir(), "other"), kept)
		natstest.Eventually(t, "it serves again", func() bool {
			_, err := c.try("order", 1)
			return err == nil && w.Ready() == nil && w.Degraded() == nil
		})
	}
}
