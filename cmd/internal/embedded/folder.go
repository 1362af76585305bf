package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/folder"
	"github.com/idworker/idworker/cmd/internal/witness"
)

var (
	// ErrFolder is wrapped by every error about a data folder that cannot be used.
	ErrFolder = errors.New("data folder cannot be used")

	// ErrInUse means that another process, or another server of this one, has the folder.
	ErrInUse = folder.ErrInUse

	// ErrGone means that the folder was removed or replaced while a server served from it.
	ErrGone = folder.ErrGone

	// ErrDamaged means that the folder has lost what it once held. The error is a
	// [*RecoverError].
	ErrDamaged = errors.New("it is damaged or an older copy, and serving from it could hand out IDs twice")

	// ErrNoWitness means that the folder has been used, and nothing is left that says what it
	// held then: it may be an older copy. The error is a [*RecoverError].
	ErrNoWitness = errors.New("its witness is gone, so nobody knows whether it is an older copy, and serving from it could hand out IDs twice")
)

// RecoverError is an [ErrDamaged] or [ErrNoWitness] of a folder: before anything is served from
// it, its counters have to be raised, see [Config.Recover].
type RecoverError struct {
	Folder, Witness string
	Err             error // which of the two, and why

	Flags string // that name the installation in it, for who raises the counters; empty for the default one
}

func (e *RecoverError) Error() string { return fmt.Sprintf("%v: %s: %v", ErrFolder, e.Folder, e.Err) }

// Unwrap makes it an [ErrFolder], and what it says.
func (e *RecoverError) Unwrap() []error { return []error{ErrFolder, e.Err} }

const (
	// lockFile is the file in the data folder that is locked.
	lockFile = "idworker.lock"

	// idFile is the file, in the data folder and in that of the witness, with the name that
	// says that the two belong together.
	idFile = "idworker.id"

	// witnessSuffix follows the data folder's path in that of its witness.
	witnessSuffix = ".witness"
)

// WitnessOf is where the witness of a data folder is, if nobody says otherwise: beside it.
func WitnessOf(data string) string { return filepath.Clean(data) + witnessSuffix }

// data is the data folder of a server, locked, with its witness.
type data struct {
	*folder.Folder
	witness *witness.Witness
}

// openData opens both.
func openData(cfg Config) (*data, error) {
	if cfg.Recover { // there has to be something to recover
		if _, err := os.Stat(cfg.Folder); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFolder, err)
		}
	}
	f, err := folder.Open(cfg.Folder, lockFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	w, err := witness.Open(cfg.Witness, cfg.Counter, cfg.Log)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &data{f, w}, nil
}

// recoverError is the error for data that must not be served from.
func (d *data) recoverError(err error) error {
	return &RecoverError{Folder: d.Path, Witness: d.witness.Folder().Path, Err: err}
}

// used reports whether a server has kept anything in the folder.
func (d *data) used() (bool, error) {
	streams, err := fs.Glob(os.DirFS(d.Path), "jetstream/*/streams/*")
	return len(streams) > 0, err
}

// readID reads the name in a folder, "" if there is none.
func readID(f *folder.Folder) (string, error) {
	id, err := fs.ReadFile(os.DirFS(f.Path), idFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(id)), err
}

// pairing is what says whether data and witness belong together.
type pairing struct {
	own, its string // the names in the data folder and in the witness's; "" if there is none
	inside   bool   // an older version's witness is in the data folder; it was read
	used     bool   // there is data
}

func (d *data) readPairing() (p pairing, err error) {
	var errs [4]error
	p.own, errs[0] = readID(d.Folder)
	p.its, errs[1] = readID(d.witness.Folder())
	p.inside, errs[2] = d.witness.TakeOver(d.Path)
	p.used, errs[3] = d.used()
	if err := errors.Join(errs[:]...); err != nil {
		return p, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return p, nil
}

// pair finds out whether the witness is that of the data. For a folder in which nothing was kept
// a new one is made. A folder of a version that had its witness inside keeps that.
func (d *data) pair(log *zap.Logger) error {
	p, err := d.readPairing()
	switch {
	case err != nil:
		return err
	case p.own != "" && p.its != "" && p.own != p.its:
		return d.recoverError(fmt.Errorf("%w: %s is the witness of another folder", ErrNoWitness, d.witness.Folder().Path))
	case p.own != "" && p.its != "":
		return nil
	case p.own == "" && p.inside:
		log.Info("the witness of the data folder moves out of it", zap.String("data", d.Path), zap.String("witness", d.witness.Folder().Path))
		return nil // Compare is next; then settle gives both a name
	case p.own != "" || p.used:
		return d.recoverError(fmt.Errorf("%w: nothing is in %s", ErrNoWitness, d.witness.Folder().Path))
	case !d.witness.Fresh():
		return nil // Compare finds that all is missing
	}
	log.Warn("new installation in "+d.Path+": no IDs were handed out from it before",
		zap.String("data", d.Path), zap.String("witness", d.witness.Folder().Path))
	return d.settle()
}

// settle makes the witness that of the data, for good. The witness gets the name first: data
// with a name is known to have had a witness.
func (d *data) settle() error {
	if err := d.witness.Settle(); err != nil {
		return err
	}
	own, err1 := readID(d.Folder)
	its, err2 := readID(d.witness.Folder())
	if err := errors.Join(err1, err2); err != nil || own != "" && own == its {
		return err
	}
	id := cmp.Or(own, its, nuid.Next()) + "\n"
	return errors.Join(d.witness.Folder().WriteFile(idFile, id), d.WriteFile(idFile, id))
}
