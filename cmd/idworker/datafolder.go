package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// dataFolder is the folder of an embedded server. It is locked, because two servers
// on one folder would both hand out the same numbers.
type dataFolder struct {
	path string
	lock *flock.Flock
}

// errDataFolder is wrapped by the errors of a folder that cannot be used.
var errDataFolder = errors.New("data folder cannot be used")

// openDataFolder makes the folder if it is missing, and locks it.
func openDataFolder(path string) (*dataFolder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("%w: %w", errDataFolder, err)
	}
	lock := flock.New(filepath.Join(path, "idworker.lock"))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%w: lock: %w", errDataFolder, err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: another process uses %s; stop it, connect to it with --server, or choose another --data", errDataFolder, path)
	}
	return &dataFolder{path, lock}, nil
}

// close lets go of the lock.
func (f *dataFolder) close() { _ = f.lock.Unlock() } // the process's end does it too

// damaged is the error for data that must not be served from.
func (f *dataFolder) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s is damaged: %s; serving from it could hand out IDs twice. Restore a backup, or begin anew in another folder with tags whose --first lies above all IDs in use",
		errDataFolder, f.path, fmt.Sprintf(format, args...))
}
