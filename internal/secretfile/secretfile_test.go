package secretfile_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/secretfile"
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
	parsed := 0
	write("1")
	core, logs := observer.New(zap.InfoLevel)
	set := &secretfile.Set{Log: zap.New(core)}
	number, err := secretfile.Open(set, "number", func(contents [][]byte) (string, error) {
		parsed++
		if text := string(contents[0]); text != "bad" {
			return text, nil
		}
		return "", errors.New("bad content")
	}, path)
	if err != nil || number.Last() != "1" {
		t.Fatal(err)
	}
	for i, step := range []struct {
		change func()
		want   string
		stale  bool
		errors int // logged
		parsed int
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
		{func() { write(string(make([]byte, 1<<20+1))) }, "4", true, 1, 0},
	} {
		step.change()
		parsed = 0
		if i%2 == 0 {
			set.Reread()
		} else {
			number.Read()
		}
		logged := logs.FilterLevelExact(zap.ErrorLevel).Len()
		logs.TakeAll()
		if last := number.Last(); last != step.want || !maps.Equal(set.Stale(), map[string]bool{"number": step.stale}) || logged != step.errors || parsed != step.parsed {
			t.Errorf("step %d: %s, stale %v, %d errors logged, parsed %d times; want %+v", i, last, set.Stale(), logged, parsed, step)
		}
	}
}

// TestFirstRead: without a value there is nothing to keep.
func TestFirstRead(t *testing.T) {
	t.Parallel()
	set := &secretfile.Set{}
	_, err := secretfile.Open(set, "x", func([][]byte) (int, error) { return 0, nil }, filepath.Join(t.TempDir(), "missing"))
	if !errors.Is(err, os.ErrNotExist) || len(set.Stale()) > 0 {
		t.Errorf("%v; %v", err, set.Stale())
	}
}

// TestPipes: a pipe is read once, as its content is gone then. A file that
// becomes a pipe is refused, instead of waiting for its content.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("1"), 0) }()
	set := &secretfile.Set{}
	text := func(contents [][]byte) (string, error) { return string(contents[0]), nil }
	piped, err := secretfile.Open(set, "pipe", text, pipe)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := secretfile.Open(set, "file", text, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	if piped.Read() != "1" || plain.Read() != "1" || !maps.Equal(set.Stale(), map[string]bool{"pipe": false, "file": true}) {
		t.Errorf("pipe %q, file %q, stale %v", piped.Last(), plain.Last(), set.Stale())
	}
}
