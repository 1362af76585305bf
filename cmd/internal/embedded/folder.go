package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store/register"
)

var (
	// ErrFolder is wrapped by every error about a data folder that cannot be used.
	ErrFolder = errors.New("data folder cannot be used")

	// ErrInUse means that another process, or another server of this one, has the folder.
	ErrInUse = problem.New(problem.FolderInUse, "another process uses it")

	// ErrGone means that the folder was removed or replaced while a server served from it.
	ErrGone = problem.New(problem.FolderGone, "it was removed or replaced while it was in use")

	// ErrDamaged means that the folder has lost what it once held. The error is a
	// [*RecoverError].
	ErrDamaged = errors.New("it is damaged or an older copy, and serving from it could issue duplicate IDs")

	// ErrNoWitness means that the folder was used, and its witness is gone, which showed what
	// it held. The error is a [*RecoverError].
	ErrNoWitness = errors.New("its witness is gone, so it may be an older copy, and serving from it could issue duplicate IDs")
)

// RecoverError is an [ErrDamaged] or [ErrNoWitness] of a folder: before anything is served
// from it, its counters have to be raised, see [Config.Recover].
type RecoverError struct {
	Folder, Witness string
	Err             error // which of the two, and why

	Flags string // that name the folder, and the installation in it, for who raises the counters
}

func (e *RecoverError) Error() string { return fmt.Sprintf("%v: %s: %v", ErrFolder, e.Folder, e.Err) }

// Unwrap makes it an [ErrFolder], and what it says.
func (e *RecoverError) Unwrap() []error { return []error{ErrFolder, e.Err} }

// Problem is part of [problem.Problem].
func (e *RecoverError) Problem() (problem.Kind, []any) {
	if errors.Is(e.Err, ErrNoWitness) {
		return problem.WitnessGone, []any{e.Flags}
	}
	return problem.FolderDamaged, []any{e.Flags}
}

const (
	// lockFile is the file in the data folder that is locked. It stays.
	lockFile = "idworker.lock"

	// witnessSuffix follows the data folder's path in that of its witness.
	witnessSuffix = ".witness"
)

// WitnessOf is where the witness of a data folder is by default: beside it.
func WitnessOf(data string) string { return filepath.Clean(data) + witnessSuffix }

// data is the data folder of a server, locked, with its witness.
type data struct {
	path    string
	witness *register.Witness
	lock    *flock.Flock
	locked  os.FileInfo // the file that is locked
}

// openData opens both. The folder is created if it is missing.
func openData(cfg Config) (*data, error) {
	if cfg.Recover { // there has to be something to recover
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

// Close unlocks the folder. So does the end of the process.
func (d *data) Close() { _ = d.lock.Unlock() }

// Check returns an error that wraps [ErrGone] if the folder is not the one that was opened.
func (d *data) Check() error {
	info, err := os.Stat(d.lock.Path())
	missing := errors.Is(err, fs.ErrNotExist) // other errors prove nothing
	if missing || err == nil && !os.SameFile(info, d.locked) {
		return fmt.Errorf("%w: %s", ErrGone, d.path)
	}
	return nil
}

// recoverError is the error for data that must not be served from.
func (d *data) recoverError(err error) error {
	return &RecoverError{Folder: d.path, Witness: d.witness.Path(), Err: err}
}

// checkWitness makes sure that data that was used has a witness, and gives new data one.
func (d *data) checkWitness(log *zap.Logger) error {
	if !d.witness.Fresh() {
		return nil // whose evidence is compared next
	}
	streams, err := fs.Glob(os.DirFS(d.path), "jetstream/*/streams/*")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if len(streams) > 0 {
		return d.recoverError(fmt.Errorf("%w: there is no %s", ErrNoWitness, d.witness.Path()))
	}
	log.Warn("new installation in "+d.path+": no IDs were handed out from it before",
		zap.String("data", d.path), zap.String("witness", d.witness.Path()))
	return d.witness.Create()
}
