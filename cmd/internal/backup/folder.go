// Package backup saves what an installation cannot lose, as text in a folder.
// Package recovery restores it.
//
// A backup has no counters that a restore relies on: they are old the moment
// they are read, so a restore raises all tags above the time. A backup has the
// names of tags with their orders and steps, removed tags, templates, the lowest
// first ID of new tags, decisions, the settings that all processes share, and
// the records of enrichments.
//
// A folder has these files, which only their owner may read:
//
//	backup.json  what the backup is of, the settings and the records
//	tags.txt     tags and templates, as tag export prints them
//	SHA256SUMS   the checksums of both, as sha256sum -c checks them
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
)

const (
	manifestFile = "backup.json"
	tagsFile     = "tags.txt"
	sumsFile     = "SHA256SUMS"
)

// formatVersion is the version of the folder's contents. A later version that
// this one cannot read has a higher number.
const formatVersion = 1

var (
	// ErrFolder is wrapped by the errors about a folder that is no backup, or no
	// whole one.
	ErrFolder = problem.New(problem.Invalid, "not a usable backup")

	// ErrExists means that the folder for a new backup is there and not empty.
	ErrExists = problem.New(problem.Invalid, "the folder is not empty; give each backup a new folder")
)

// Backup is the contents of a folder.
type Backup struct {
	Manifest
	List tags.Listing

	Unread string // the bucket of enrichments, if the user may not read it
}

// Manifest describes a backup. A JSON decoder ignores fields of later versions.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that took it
	Taken   time.Time `json:"taken"`   // by the NATS server's clock; version 0.2.0: by that of its machine

	Prefix       messages.Prefix `json:"prefix"`
	Installation string          `json:"installation"` // ID
	Replicas     int             `json:"replicas"`     // of the buckets

	// The register's decisions, the latest last, and the lowest first ID of names
	// without an entry.
	Decisions []string `json:"decisions,omitempty"`
	Floor     int64    `json:"floor,string"`

	// The entries of the buckets by key.
	Config      map[string]string `json:"config"`
	Enrichments map[string]string `json:"enrichments,omitempty"`
}

// Write writes the folder, which must be missing or empty: whole, or not at all.
func (b Backup) Write(folder string) (err error) {
	switch info, err := os.Lstat(folder); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: %s", ErrExists, folder)
	}
	if inside, err := os.ReadDir(folder); err == nil && len(inside) > 0 {
		return fmt.Errorf("%w: %s", ErrExists, folder)
	}
	parent := filepath.Dir(folder)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, filepath.Base(folder)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{manifestFile, b.writeManifest},
		{tagsFile, b.List.Text},
		{sumsFile, func(w io.Writer) error { return writeSums(temp, w) }},
	} {
		if err := writeFile(filepath.Join(temp, f.name), f.write); err != nil {
			return err
		}
	}
	if _, err := Read(temp); err != nil {
		return err
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty one
		return fmt.Errorf("%w: %s", ErrExists, folder)
	}
	if err := errors.Join(syncFolder(temp), os.Rename(temp, folder)); err != nil {
		return err
	}
	return syncFolder(parent)
}

func (b Backup) writeManifest(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(b.Manifest)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeSums writes the checksums of the files in a folder.
func writeSums(folder string, w io.Writer) error {
	for _, name := range []string{manifestFile, tagsFile} {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err == nil {
			_, err = fmt.Fprintf(w, "%x  %s\n", sum.Sum(nil), name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keys are what the keys of buckets consist of.
var keys = regexp.MustCompile(`^[-/_=.a-zA-Z0-9]+$`)

// check returns an error if a restore of these settings would fail halfway, or
// would make an installation that cannot work. Checksums tell a damaged folder
// from a whole one, but not a whole one from a folder that somebody has edited.
func (m Manifest) check() error {
	if err := errors.Join(m.Prefix.Check(), agreement.CheckID(m.Installation)); err != nil {
		return err
	}
	id, since, _ := strings.Cut(m.Config[agreement.InstallationKey], " ")
	_, noTime := time.Parse(time.RFC3339Nano, since)
	switch {
	case id != m.Installation || noTime != nil:
		return fmt.Errorf("setting %s is %.100q, expected %s and a time", agreement.InstallationKey, m.Config[agreement.InstallationKey], m.Installation)
	case m.Taken.Before(time.UnixMicro(1)):
		return errors.New("it was taken at no time")
	case m.Floor < 1:
		return fmt.Errorf("the lowest first ID is %d, allowed is 1 to 2^63-1", m.Floor)
	case m.Replicas < 1 || m.Replicas > 5:
		return fmt.Errorf("%d replicas, allowed is 1 to 5", m.Replicas)
	}
	for _, decision := range m.Decisions {
		if len(strings.Fields(decision)) != 1 || strings.TrimSpace(decision) != decision {
			return fmt.Errorf("%.100q is no decision", decision)
		}
	}
	for _, entries := range []map[string]string{m.Config, m.Enrichments} {
		for key := range entries {
			if !keys.MatchString(key) || !subject.IsLiteral(key) {
				return fmt.Errorf("%.100q is no key of a bucket", key)
			}
		}
	}
	if text, found := m.Config[lease.OutageKey]; found {
		if _, err := lease.ParseOutage(text); err != nil {
			return fmt.Errorf("setting %s: %w", lease.OutageKey, err)
		}
	}
	if text, found := m.Config[lease.LayoutKey]; found {
		if _, err := snowflake.ParseLayout(text); err != nil {
			return fmt.Errorf("setting %s: %w", lease.LayoutKey, err)
		}
	}
	return nil
}

// Read reads a folder, and checks that it is whole and unchanged. Errors:
// [ErrFolder]; the file system's.
func Read(folder string) (b Backup, err error) {
	unusable := func(reason string, args ...any) (Backup, error) {
		return Backup{}, fmt.Errorf("%w: %s: %s", ErrFolder, folder, fmt.Sprintf(reason, args...))
	}
	data, err := os.ReadFile(filepath.Join(folder, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return unusable("%s is missing", manifestFile)
	}
	if err != nil {
		return Backup{}, err
	}
	malformed := json.Unmarshal(data, &b.Manifest)
	if malformed == nil && b.Format > formatVersion {
		return unusable("a newer version of idworker wrote it: format %d, and this version reads %d", b.Format, formatVersion)
	}
	sums, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return unusable("%s is missing", sumsFile)
	}
	if err != nil {
		return Backup{}, err
	}
	found := new(bytes.Buffer)
	err = writeSums(folder, found)
	if errors.Is(err, fs.ErrNotExist) {
		return unusable("%s is missing", tagsFile)
	}
	if err != nil {
		return Backup{}, err
	}
	if found.String() != string(sums) || malformed != nil || b.Format != formatVersion {
		return unusable("its files do not match %s, so it was changed or is incomplete", sumsFile)
	}
	delete(b.Config, agreement.ProofKey) // of a folder that was edited
	f, err := os.Open(filepath.Join(folder, tagsFile))
	if err != nil {
		return Backup{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := b.check(); err != nil {
		return unusable("%s: %v", manifestFile, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() == 0 { // no tags yet
		return b, err
	}
	if b.List, err = tags.Parse(f); err != nil {
		return unusable("%s: %v", tagsFile, err)
	}
	return b, nil
}
