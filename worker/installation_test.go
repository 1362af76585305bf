package worker

import (
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/testing/natstest"
)

// TestLookWithoutOwnAnswer: a look without the process's own answer proves
// nothing, whether other processes answer or not.
func TestLookWithoutOwnAnswer(t *testing.T) {
	t.Parallel()
	net := NewAccount(t)
	w := newInstallationWatch(&Process{
		cfg: Config{Control: net.Connect(t)}.WithDefaults(), self: ProcessIdentity{Instance: "own", Installation: "ours"},
	})
	look := func() error {
		foreign, err := w.look(t.Context())
		if len(foreign) > 0 {
			t.Errorf("found %+v", foreign)
		}
		return err
	}
	answer := func(instance string) {
		conn := net.Connect(t)
		_, err := micro.AddService(conn, micro.Config{
			Name: ProcessServiceName, Version: "0.0.1",
			Metadata: map[string]string{
				"instance": instance, "installation": "ours", "created": "2026-11-22T12:00:00Z", "role": "worker", "prefix": "ids",
			},
		})
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if look() == nil {
		t.Error("no process answers, and the look counts")
	}
	answer("other")
	if look() == nil {
		t.Error("only another process answers, and the look counts")
	}
	answer("own")
	natstest.Eventually(t, "a look that counts", func() bool { return look() == nil })
}
