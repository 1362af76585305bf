package api

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/secretfile"
)

// TestSignal: files are also reread at once on a signal.
func TestSignal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	used, signals := make(chan string, 1), make(chan os.Signal)
	s := &Server{cfg: Config{rereadEvery: time.Hour, Reread: signals}}
	if _, err := secretfile.Open(&s.files, "number", func(contents [][]byte) (any, error) {
		used <- string(contents[0])
		return nil, nil
	}, path); err != nil {
		t.Fatal(err)
	}
	<-used
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.reread(ctx)
	}()
	write("2")
	signals <- syscall.SIGHUP
	if text := <-used; text != "2" {
		t.Errorf("used %q", text)
	}
	stop()
	<-ended
}
