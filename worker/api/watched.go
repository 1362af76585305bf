package api

import (
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
	seen []stamp
	said string // about the latest failure
}

// refreshed is any watched.
type refreshed interface {
	refresh(log *zap.Logger)
	state() (name string, failing bool)
}

// stamp is by what a changed file is told.
type stamp struct {
	modified time.Time
	size     int64
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
	w.seen, _ = w.stamps() // before they are read: what changes meanwhile is read again
	return w, w.load()
}

// load reads the files.
func (w *watched[T]) load() error {
	var contents [][]byte
	for _, path := range w.paths {
		content, err := readFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		contents = append(contents, content)
	}
	value, err := w.read(contents)
	if err != nil {
		return fmt.Errorf("%s in %s: %w", w.name, w.paths[0], err)
	}
	w.current.Store(&value)
	return nil
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

func (w *watched[T]) stamps() (all []stamp, err error) {
	for _, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		all = append(all, stamp{info.ModTime(), info.Size()})
	}
	return all, nil
}

// refresh reads the files again if they have changed, or could not be used the last time.
func (w *watched[T]) refresh(log *zap.Logger) {
	now, err := w.stamps()
	if err == nil && !w.failing.Load() && slices.Equal(now, w.seen) {
		return
	}
	if err == nil {
		err = w.load()
	}
	w.seen = now
	w.failing.Store(err != nil)
	switch {
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
