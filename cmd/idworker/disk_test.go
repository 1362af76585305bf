package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestFullDisk: while the embedded server cannot write, readyz, the metrics,
// doctor and status report it, and buffered IDs are issued. Once there is
// space, serve ends with an error that names the folder.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	data, address, page := filepath.Join(t.TempDir(), "data"), freeport.Address(t), freeport.Address(t)
	s := &site{T: t, url: "nats://" + address}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	code := make(chan int, 1)
	var out, said bytes.Buffer
	go func() {
		code <- run(ctx, []string{"serve", "--log-level", "error", "--listen", address, "--data", data, "--http", page}, &out, &said)
	}()
	s.answered("tag create order")
	s.answered("get order")
	conn, err := nats.Connect(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js := natstest.JetStream(t, conn)
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage})
	// Where the server tries to write.
	taken := filepath.Join(data, "idworker.room")
	if err := os.MkdirAll(filepath.Join(taken, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(data, "jetstream/$G/streams/S/msgs/2.blk")); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 512<<10)
	natstest.Eventually(t, "readyz says it", func() bool {
		if err := js.Conn().Publish("s", value); err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(fetch(page, "/readyz"), "ready, but the NATS server cannot write to its data folder")
	})
	if !regexp.MustCompile(`idworker_nats_unsynced\{.*\} 0\n(?s:.*)idworker_nats_unwritten\{.*\} 1\n`).MatchString(fetch(page, "/metrics")) {
		t.Error("no metric says so, or that the server syncs")
	}
	natstest.Eventually(t, "doctor says it", func() bool {
		return strings.Contains(s.at("doctor").stdout, ": the NATS server cannot write to its data folder")
	})
	natstest.Eventually(t, "status says it", func() bool {
		status := s.at("status").stdout
		return strings.Contains(status, "error ") && strings.Contains(status, "cannot write to its data folder") && !strings.Contains(status, "all is well")
	})
	s.answered("get order") // from buffers
	if len(code) > 0 {
		t.Fatalf("it has ended: %s", said.String())
	}
	if err := os.RemoveAll(taken); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it ends", func() bool { return len(code) > 0 })
	if code := <-code; code != exitFailure || !strings.Contains(said.String(), data+": ") || !strings.Contains(said.String(), "idworker.room: is a directory") {
		t.Errorf("it ended with %d: %s", code, said.String())
	}
}

// TestRegisterIsGone: the page shows that doctor could open the store. Without
// its bucket, readyz, doctor, status and the metrics report that a loader
// grants nothing, and name the command that repairs it.
func TestRegisterIsGone(t *testing.T) {
	t.Parallel()
	page := freeport.Address(t)
	s := newSite(t, "--http", page, "--max-step", "10", "--max-batch", "10", "--log-level", "fatal")
	s.must("tag create order --step 10")
	last := s.ids(s.answered("get order").stdout)[0]
	if text := fetch(page, "/"); !strings.Contains(text, "jetstream is usable") || strings.Contains(text, "doctor: store") {
		t.Errorf("the page does not show that the store is usable:\n%s", text)
	}
	js := natstest.JetStream(t, s.nats.Connect(t))
	if err := js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
		t.Fatal(err)
	}
	const remedy = "idworker tag raise --all"
	natstest.Eventually(t, "readyz says it", func() bool {
		text := fetch(page, "/readyz")
		return strings.HasPrefix(text, "ready, but grants nothing: the register regressed: ") && strings.Contains(text, remedy)
	})
	natstest.Eventually(t, "doctor says it", func() bool {
		r := s.at("doctor")
		return r.code == exitFailure && strings.Contains(r.stdout, "grants nothing: the register regressed: ") && strings.Contains(r.stdout, remedy)
	})
	if status := s.at("status").stdout; !strings.Contains(status, "grants nothing: the register regressed: ") || !strings.Contains(status, remedy) {
		t.Errorf("status says\n%s", status)
	}
	if !regexp.MustCompile(`idworker_nats_unsynced\{.*\} 1\n(?s:.*)idworker_store_stopped\{.*\} 1\n`).MatchString(fetch(page, "/metrics")) {
		t.Error("no metric says so, or that the test's server does not sync")
	}
	s.must("tag raise --all --by 1000")
	natstest.Eventually(t, "readyz is content", func() bool { return strings.HasPrefix(fetch(page, "/readyz"), "ready\n") })
	for n := 0; last <= 1000; n++ { // a buffer has some tens of IDs at most
		if n > 50 {
			t.Fatalf("the last ID is %d after a raise by 1000", last)
		}
		id := s.ids(s.answered("get order").stdout)[0]
		if id <= last {
			t.Fatalf("DUPLICATE: %d after %d", id, last)
		}
		last = id
	}
}
