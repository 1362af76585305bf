// Package secretfile reads files with secrets, which may be replaced while a
// process runs: passwords, keys, certificates, tokens.
//
// Each use of a secret rereads its file, so a new secret needs no restart. A
// file may be missing or half-written at that moment: the previous secret stays
// in force then, and the log reports that once.
package secretfile

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"
)

// Set is all files of a process or a part of it. Its zero value is empty.
type Set struct {
	Log *zap.Logger // may be nil

	mu           sync.Mutex
	files        []file
	certificates map[string]*Files[*tls.Certificate] // by use
}

// file is Files of any type.
type file interface {
	refresh()
	state() (name string, stale bool)
}

// Reread rereads all files.
func (s *Set) Reread() {
	for _, f := range s.all() {
		f.refresh()
	}
}

// Stale reports, by name, which files could not be used when they were read
// last.
func (s *Set) Stale() map[string]bool {
	stale := make(map[string]bool)
	for _, f := range s.all() {
		name, is := f.state()
		stale[name] = is
	}
	return stale
}

func (s *Set) all() []file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files)
}

// Files are files that belong together, such as a certificate and its key. A pipe
// has its content only once, so it is not reread.
type Files[T any] struct {
	log   *zap.Logger
	name  string // for logs
	paths []string
	parse func(contents [][]byte) (T, error)

	value atomic.Pointer[T]
	stale atomic.Bool
	once  bool // one is no regular file

	mu     sync.Mutex // of reading
	seen   [][]byte   // the contents of value
	logged string     // the latest failure
}

// Open reads files for the first time. An error of parse must not contain a
// secret. Calls of parse do not overlap.
func Open[T any](s *Set, name string, parse func(contents [][]byte) (T, error), paths ...string) (*Files[T], error) {
	f := &Files[T]{log: cmp.Or(s.Log, zap.NewNop()), name: name, paths: paths, parse: parse}
	for _, path := range paths {
		info, err := os.Stat(path)
		f.once = f.once || err == nil && !info.Mode().IsRegular()
	}
	if _, err := f.load(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
	return f, nil
}

// Read rereads the files and returns their value: the latest valid one.
func (f *Files[T]) Read() T {
	f.refresh()
	return f.Last()
}

// Last returns the value of the latest valid read.
func (f *Files[T]) Last() T { return *f.value.Load() }

func (f *Files[T]) state() (name string, stale bool) { return f.name, f.stale.Load() }

// refresh rereads the files, and logs each failure once.
func (f *Files[T]) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.once {
		return
	}
	changed, err := f.load()
	f.stale.Store(err != nil)
	switch {
	case err != nil && err.Error() != f.logged:
		f.logged = err.Error()
		f.log.Error("reload failed, keeping previous contents", zap.String("what", f.name), zap.Error(err))
	case err == nil && changed:
		f.logged = ""
		f.log.Info("reloaded", zap.String("what", f.name), zap.Strings("files", f.paths))
	}
}

// load reads the files. It parses them if they changed, or were invalid the
// last time. It compares contents: the files of an image, and successive
// targets of a symlink, may have the same time and size.
func (f *Files[T]) load() (changed bool, err error) {
	var contents [][]byte
	for _, path := range f.paths {
		content, err := read(path, f.once)
		if err != nil {
			return true, err
		}
		contents = append(contents, content)
	}
	if !f.stale.Load() && f.seen != nil && slices.EqualFunc(contents, f.seen, bytes.Equal) {
		return false, nil
	}
	value, err := f.parse(contents)
	if err != nil {
		for n, content := range contents {
			if mark := CheckMark(content); mark != nil && !errors.Is(err, ErrMark) {
				return true, fmt.Errorf("%s: %w (%w)", f.paths[n], mark, err)
			}
		}
		return true, fmt.Errorf("%s: %w", f.paths[0], err)
	}
	f.value.Store(&value)
	f.seen = contents
	return true, nil
}

// ErrMark means that a file begins with a byte-order mark, as editors of Windows
// write it. It is invisible, and belongs to no secret.
var ErrMark = errors.New("the file begins with a byte-order mark")

// marks are the byte-order marks, each with the encoding that it stands for.
var marks = []struct{ mark, encoding string }{
	{"\xEF\xBB\xBF", "UTF-8"}, {"\xFF\xFE", "UTF-16"}, {"\xFE\xFF", "UTF-16"},
}

// CheckMark returns an [ErrMark] that names the encoding, if a content begins with
// a byte-order mark. A file that cannot be parsed is checked for it anyway.
func CheckMark(content []byte) error {
	for _, m := range marks {
		if bytes.HasPrefix(content, []byte(m.mark)) {
			return fmt.Errorf("%w of %s; save it as UTF-8 without one", ErrMark, m.encoding)
		}
	}
	return nil
}

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

// read reads a file. It waits for the content of a pipe only if it may.
func read(path string, wait bool) ([]byte, error) {
	if wait {
		return content(os.Open(path))
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, file.Close(), fmt.Errorf("%s is no regular file any more", path))
	}
	return content(file, nil)
}

func content(file *os.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s is larger than %d bytes", file.Name(), maxSize)
	}
	return data, err
}
