package api

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestFilesAreReadAgain: valid changes take effect. An invalid change does not,
// is logged once, and is retried until it is valid. Equal times and sizes of
// files do not matter.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))); err != nil {
			t.Fatal(err)
		}
	}
	swap := func(text string) { // as Kubernetes does
		t.Helper()
		target := filepath.Join(t.TempDir(), "target")
		link := target + ".link"
		if err := errors.Join(os.WriteFile(target, []byte(text), 0o600), os.Symlink(target, link), os.Rename(link, path)); err != nil {
			t.Fatal(err)
		}
	}
	reads := 0
	write("1")
	current := ""
	w := watchedFiles{name: "number", paths: []string{path}, use: func(contents [][]byte) error {
		reads++
		if string(contents[0]) == "bad" {
			return errors.New("bad content")
		}
		current = string(contents[0])
		return nil
	}}
	if _, err := w.load(); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	for i, step := range []struct {
		change  func()
		want    string
		failing bool
		errors  int // logged
		reads   int
	}{
		{func() {}, "1", false, 0, 0},
		{func() { write("2") }, "2", false, 0, 1},
		{func() {}, "2", false, 0, 0},
		{func() { write("bad") }, "2", true, 1, 1},
		{func() {}, "2", true, 0, 1},
		{func() { _ = os.Remove(path) }, "2", true, 1, 0},
		{func() {}, "2", true, 0, 0},
		{func() { write("2") }, "2", false, 0, 1},
		{func() { write("bad") }, "2", true, 1, 1},
		{func() { write("3") }, "3", false, 0, 1},
		{func() { swap("4") }, "4", false, 0, 1},
	} {
		step.change()
		reads = 0
		w.refresh(zap.New(core))
		logged := 0
		for _, line := range logs.TakeAll() {
			if line.Level == zap.ErrorLevel {
				logged++
			}
		}
		if failing := w.failing.Load(); current != step.want || failing != step.failing || logged != step.errors || reads != step.reads {
			t.Errorf("step %d: %s, failing %v, %d errors logged, %d reads; want %+v", i, current, failing, logged, reads, step)
		}
	}
}

// TestSignal: files are also reread at once on a signal.
func TestSignal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	used, signals := make(chan string), make(chan os.Signal)
	w := &watchedFiles{name: "number", paths: []string{path}, use: func(contents [][]byte) error {
		used <- string(contents[0])
		return nil
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reread(ctx, []*watchedFiles{w}, Config{rereadEvery: time.Hour, Reread: signals, Log: zap.NewNop()})
	}()
	signals <- syscall.SIGHUP
	if text := <-used; text != "1" {
		t.Errorf("used %q", text)
	}
	stop()
	<-ended
}
