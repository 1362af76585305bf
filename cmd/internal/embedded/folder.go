package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store/register"
)

var (
	// ErrFolder is wrapped by every error about an unusable data folder.
	ErrFolder = errors.New("unusable data folder")

	// ErrInUse means that another server uses the folder.
	ErrInUse = problem.New(problem.FolderInUse, "another process uses it")

	// ErrGone means that the folder was removed or replaced while in use.
	ErrGone = problem.New(problem.FolderGone, "it was removed or replaced while in use")

	// ErrDamaged means that the folder has lost data. The error is a
	// [*RecoverError].
	ErrDamaged = errors.New("it is damaged or an old copy, and serving from it could issue duplicate IDs")

	// ErrNoWitness means that a used folder has no witness. The error is a
	// [*RecoverError].
	ErrNoWitness = errors.New("its witness is gone: it may be an old copy, and serving from it could issue duplicate IDs")
)

// RecoverError is an [ErrDamaged] or [ErrNoWitness] of a folder. Raise its
// counters before serving from it, see [Config.Recover].
type RecoverError struct {
	Folder, Witness string
	Err             error // wraps one of the two

	// Flags select the folder and its installation in a command that raises the
	// counters. The caller sets them.
	Flags string
}

func (e *RecoverError) Error() string { return fmt.Sprintf("%v: %s: %v", ErrFolder, e.Folder, e.Err) }

// Unwrap returns [ErrFolder] and the cause.
func (e *RecoverError) Unwrap() []error { return []error{ErrFolder, e.Err} }

// Problem implements [problem.Problem].
func (e *RecoverError) Problem() (problem.Kind, []any) {
	if errors.Is(e.Err, ErrNoWitness) {
		return problem.WitnessGone, []any{e.Flags}
	}
	return problem.FolderDamaged, []any{e.Flags}
}

const (
	// lockFile is the locked file in the data folder. It is never removed.
	lockFile = "idworker.lock"

	// witnessSuffix is appended to the data folder's path.
	witnessSuffix = ".witness"
)

// WitnessOf returns the default path of a data folder's witness.
func WitnessOf(data string) string { return filepath.Clean(data) + witnessSuffix }

// data is a locked data folder with its witness.
type data struct {
	path    string
	witness *register.Witness
	lock    *flock.Flock
	locked  os.FileInfo // the locked file
}

// openData opens folder and witness. It creates a missing folder.
func openData(cfg Config) (*data, error) {
	if cfg.Recover && !cfg.Create { // only an existing folder can be raised
		if _, err := os.Stat(cfg.Folder); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFolder, err)
		}
	}
	d := &data{path: cfg.Folder, lock: flock.New(filepath.Join(cfg.Folder, lockFile))}
	if err := d.takeLock(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	var err error
	if d.witness, err = register.OpenWitness(cfg.Witness); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *data) takeLock() error {
	if err := os.MkdirAll(d.path, 0o750); err != nil {
		return err
	}
	locked, err := d.lock.TryLock()
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if !locked {
		return fmt.Errorf("%w: %s", ErrInUse, d.path)
	}
	if d.locked, err = os.Stat(d.lock.Path()); err != nil {
		return errors.Join(fmt.Errorf("lock: %w", err), d.lock.Unlock())
	}
	return nil
}

// Close unlocks the folder, as the end of the process does.
func (d *data) Close() { _ = d.lock.Unlock() }

// Check returns an [ErrGone] if the folder at the path is no longer the opened
// folder.
func (d *data) Check() error {
	info, err := os.Stat(d.lock.Path())
	missing := errors.Is(err, fs.ErrNotExist) // other errors prove nothing
	if missing || err == nil && !os.SameFile(info, d.locked) {
		return fmt.Errorf("%w: %s", ErrGone, d.path)
	}
	return nil
}

// recoverError returns the error for data that must not be served.
func (d *data) recoverError(err error) error {
	return &RecoverError{Folder: d.path, Witness: d.witness.Path(), Err: err}
}

// checkWitness reports whether the data is new. Used data without a witness is an
// error.
func (d *data) checkWitness() (fresh bool, err error) {
	if !d.witness.Fresh() {
		return false, nil // compared next
	}
	streams, err := fs.Glob(os.DirFS(d.path), "jetstream/*/streams/*")
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if len(streams) > 0 {
		return false, d.recoverError(fmt.Errorf("%w: no %s", ErrNoWitness, d.witness.Path()))
	}
	return true, nil
}
