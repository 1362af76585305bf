package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// watched is what is read from files, and read again when they change. If that fails, what was read
// before stays.
type watched[T any] struct {
	name  string // for logs
	paths []string
	read  func(contents [][]byte) (T, error)

	current atomic.Pointer[T]
	failing atomic.Bool // the files have changed, and cannot be used

	// Of the goroutine that refreshes.
	seen [][]byte // the contents that were read last
	said string   // about the latest failure
}

// refreshed is any watched.
type refreshed interface {
	refresh(log *zap.Logger)
	state() (name string, failing bool)
}

// refreshEvery is how often files are looked at.
const refreshEvery = 2 * time.Second

// maxFile bounds what is read of one.
const maxFile = 1 << 20

// ErrFileTooLarge is wrapped by the errors about files that are.
var ErrFileTooLarge = errors.New("the file is too large")

// watch reads the files for the first time.
func watch[T any](name string, read func(contents [][]byte) (T, error), paths ...string) (*watched[T], error) {
	w := &watched[T]{name: name, paths: paths, read: read}
	_, err := w.load()
	return w, err
}

// load reads the files, and uses them if they have changed, or could not be used the last time. It
// compares contents: the files of an image, and the targets of a symlink one after the other, may
// all have the same time and size.
func (w *watched[T]) load() (changed bool, err error) {
	var contents [][]byte
	for _, path := range w.paths {
		content, err := readFile(path)
		if err != nil {
			return true, fmt.Errorf("%s: %w", w.name, err)
		}
		contents = append(contents, content)
	}
	if !w.failing.Load() && slices.EqualFunc(contents, w.seen, bytes.Equal) {
		return false, nil
	}
	w.seen = contents
	value, err := w.read(contents)
	if err != nil {
		return true, fmt.Errorf("%s in %s: %w", w.name, w.paths[0], err)
	}
	w.current.Store(&value)
	return true, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s: %w, allowed are %d bytes", path, ErrFileTooLarge, maxFile)
	}
	return content, err
}

// refresh reads the files again.
func (w *watched[T]) refresh(log *zap.Logger) {
	changed, err := w.load()
	w.failing.Store(err != nil)
	switch {
	case !changed:
	case err == nil:
		w.said = ""
		log.Info("read again", zap.String("what", w.name), zap.Strings("files", w.paths))
	case err.Error() != w.said:
		w.said = err.Error()
		log.Error("cannot be read again; what was read before stays in force", zap.String("what", w.name), zap.Error(err))
	}
}

func (w *watched[T]) state() (name string, failing bool) { return w.name, w.failing.Load() }

// refresh looks at all files again and again until ctx ends.
func refresh(ctx context.Context, files []refreshed, every time.Duration, log *zap.Logger) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, f := range files {
			f.refresh(log)
		}
	}
}
