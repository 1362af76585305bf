package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// full is a file that rejects writes, as on a full disk.
const full = "/dev/full"

// guards runs Guard until the test ends, before the server stops.
func guards(t *testing.T, s *NATS) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Guard(ctx); err != nil {
			told <- err
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return told
}

// TestFullDisk: a failed write is reported at once. The server ends only once
// there is space, because buffers are served until then. The next server
// writes.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(full); err != nil {
		t.Skip("no " + full)
	}
	cfg := config(filepath.Join(t.TempDir(), "data"))
	s := start(t, cfg)
	kv := createBucket(t, s, "b")
	if _, err := kv.PutString(t.Context(), "x", "1"); err != nil {
		t.Fatal(err)
	}
	// The server cannot try to write: the file in that place cannot be
	// replaced.
	taken := filepath.Join(cfg.Folder, roomFile)
	if err := os.MkdirAll(filepath.Join(taken, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	told := guards(t, s)
	if err := s.Trouble(); err != nil {
		t.Fatal(err)
	}

	// The next block of messages is on a full disk.
	block := filepath.Join(cfg.Folder, "jetstream/$G/streams/KV_b/msgs/2.blk")
	if err := os.Symlink(full, block); err != nil {
		t.Fatal(err)
	}
	conn, _, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	value := make([]byte, 512<<10)
	natstest.Eventually(t, "it is reported", func() bool {
		// A failed write is not answered.
		if err := conn.Publish("$KV.b.y", value); err != nil {
			t.Fatal(err)
		}
		return s.Trouble() != nil
	})
	for range 3 { // checks
		if err := s.checkWrites(); err != nil {
			t.Fatalf("ended without room: %v", err)
		}
	}
	if len(told) > 0 {
		t.Fatalf("ended without room: %v", <-told)
	}

	if err := os.RemoveAll(taken); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it ends", func() bool { return len(told) > 0 })
	if err := <-told; !errors.Is(err, ErrUnwritten) || !strings.Contains(err.Error(), cfg.Folder) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.Folder, roomFile+"*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	s.Stop()
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	again := start(t, cfg)
	if _, err := createBucket(t, again, "b").PutString(t.Context(), "y", "1"); err != nil {
		t.Fatal(err)
	}
	if err := again.Trouble(); err != nil {
		t.Error(err)
	}
}
