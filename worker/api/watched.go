package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// watchedFiles are files that are reread when their contents change. It compares
// contents: the files of an image, and successive targets of a symlink, may
// have the same time and size.
type watchedFiles struct {
	name  string // for logs and metrics
	paths []string
	// after an error, the previous contents stay in force
	use func(contents [][]byte) error

	failing atomic.Bool // the files changed, and are invalid

	// State of the rereading goroutine.
	seen   [][]byte // the contents last used
	logged string   // the latest failure
}

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// load reads the files. It uses them if they changed, or were invalid the last
// time.
func (w *watchedFiles) load() (changed bool, err error) {
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
	if err := w.use(contents); err != nil {
		return true, fmt.Errorf("%s in %s: %w", w.name, w.paths[0], err)
	}
	w.seen = contents
	return true, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return content, err
}

// refresh reloads the files, and logs each failure once.
func (w *watchedFiles) refresh(log *zap.Logger) {
	changed, err := w.load()
	w.failing.Store(err != nil)
	switch {
	case err != nil && err.Error() != w.logged:
		w.logged = err.Error()
		log.Error("reload failed, keeping previous contents", zap.String("what", w.name), zap.Error(err))
	case err == nil && changed:
		w.logged = ""
		log.Info("reloaded", zap.String("what", w.name), zap.Strings("files", w.paths))
	}
}

// reread refreshes the files until ctx ends.
func reread(ctx context.Context, files []*watchedFiles, cfg Config) {
	ticker := time.NewTicker(cfg.rereadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-cfg.Reread:
		}
		for _, f := range files {
			f.refresh(cfg.Log)
		}
	}
}
