package api

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestFilesAreReadAgain: what changes takes effect. What cannot be used does not, is logged once, and is
// tried again until it can. That the time and the size of a file stay the same does not matter.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))); err != nil {
			t.Fatal(err)
		}
	}
	reads := 0
	write("1")
	w, err := watch("number", func(contents [][]byte) (string, error) {
		reads++
		if string(contents[0]) == "bad" {
			return "", errors.New("bad content")
		}
		return string(contents[0]), nil
	}, path)
	if err != nil {
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
		if _, failing := w.state(); *w.current.Load() != step.want || failing != step.failing || logged != step.errors || reads != step.reads {
			t.Errorf("step %d: %s, failing %v, %d errors logged, %d reads; want %+v", i, *w.current.Load(), failing, logged, reads, step)
		}
	}
}
