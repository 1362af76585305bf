// Package folder is a folder that one process uses at a time, and whose files survive a
// power cut whole.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrInUse means that another process, or another part of this one, has the folder.
var ErrInUse = errors.New("another process uses it")

// Folder is a locked folder.
type Folder struct {
	Path   string
	lock   *flock.Flock
	locked os.FileInfo // the file that is locked
}

// Open creates the folder if it is missing, and locks it. The file that is locked has that
// name, and stays.
func Open(path, lockFile string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(path, lockFile))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	info, err := os.Stat(lock.Path())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), lock.Unlock())
	}
	return &Folder{path, lock, info}, nil
}

// ErrGone means that the folder was removed or replaced while it was open: what is written to files that
// were open goes nowhere.
var ErrGone = errors.New("it was removed or replaced while it was in use")

// Check returns an error that wraps [ErrGone] if the folder is not the one that was opened.
func (f *Folder) Check() error {
	info, err := os.Stat(f.lock.Path())
	missing := errors.Is(err, fs.ErrNotExist) // of any other error nobody knows what it means
	if missing || err == nil && !os.SameFile(info, f.locked) {
		return fmt.Errorf("%w: %s", ErrGone, f.Path)
	}
	return nil
}

// Close unlocks the folder. So does the end of the process.
func (f *Folder) Close() { _ = f.lock.Unlock() }

// File is the path of a file in the folder.
func (f *Folder) File(name string) string { return filepath.Join(f.Path, name) }

// Replace writes a file under another name and renames it into place, so that a crash leaves
// the old one or the new one. The file is open after that, for more to be appended.
func (f *Folder) Replace(name string, write func(*os.File) error) (*os.File, error) {
	path := f.File(name)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	err = errors.Join(write(file), file.Sync())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		_ = os.Remove(path + ".new") // a full disk needs the room
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// WriteFile replaces a file by one with that content.
func (f *Folder) WriteFile(name, content string) error {
	file, err := f.Replace(name, func(file *os.File) error {
		_, err := file.WriteString(content)
		return err
	})
	if err != nil {
		return err
	}
	return file.Close()
}

// sync makes names that were changed survive a power cut.
func (f *Folder) sync() error {
	dir, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
