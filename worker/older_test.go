package worker_test

import (
	"fmt"
	"testing"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/neighbours"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestOlderProcess: a process of a version that does not say that it knows strict tags is counted once there are
// some. Those of this version are not.
func TestOlderProcess(t *testing.T) {
	net := natstest.Start(t)
	w := startWorker(t, net, worker.Config{Store: newStore(t, net, 1)})
	conn, js := net.Connect(t), newJetStream(t, net)
	installation, err := agreement.PeekInstallation(t.Context(), js, messages.DefaultPrefix)
	if err != nil || installation == "" {
		t.Fatal(installation, err)
	}
	met := func() float64 { return scrape(t, w)["older_processes_met_total"] }
	says := func(more string) {
		t.Helper()
		hello := fmt.Sprintf(`{"installation":%q,"created":"2026-01-01T00:00:00Z","instance":"OLD","serving":true%s}`, installation, more)
		if err := conn.Publish(neighbours.Subject(messages.DefaultPrefix), []byte(hello)); err != nil {
			t.Fatal(err)
		}
	}
	says("")
	editor, err := tagrules.OpenEditor(t.Context(), js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if met() != 0 {
		t.Error("an older process counts where no tag is strict")
	}
	if _, err := editor.SetOrder(t.Context(), "order", tagrules.Strict); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the older process is counted", func() bool { says(""); return met() > 0 })
	before := met()
	for range 10 {
		says(`,"orders":true`)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "what was said is heard", func() bool { says(""); return met() > before+1 })
	if n := met(); n > before+8 {
		t.Errorf("%v older processes were met, and %v before: those of this version count", n, before)
	}
	older, err := worker.ListOlderWorkers(t.Context(), conn, messages.DefaultPrefix)
	if err != nil || len(older) != 0 {
		t.Errorf("workers of an older version: %v, %v", older, err)
	}
}
