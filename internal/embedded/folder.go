package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

var (
	// ErrFolder is wrapped by every error about a data folder that cannot be used.
	ErrFolder = errors.New("data folder cannot be used")

	// ErrInUse means that another process, or another server of this one, has the folder.
	ErrInUse = errors.New("another process uses it")

	// ErrDamaged means that the folder has lost what it once held.
	ErrDamaged = errors.New("it is damaged, and serving from it could hand out IDs twice")
)

// lockFile is the file in the folder that is locked.
const lockFile = "idworker.lock"

// folder is the data folder of a server, locked.
type folder struct {
	path string
	lock *flock.Flock
}

// openFolder creates the folder if it is missing, and locks it.
func openFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	lock := flock.New(filepath.Join(path, lockFile))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%w: lock: %w", ErrFolder, err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %w: %s", ErrFolder, ErrInUse, path)
	}
	return &folder{path, lock}, nil
}

// close unlocks the folder. So does the end of the process.
func (f *folder) close() { _ = f.lock.Unlock() }
