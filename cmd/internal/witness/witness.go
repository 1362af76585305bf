package witness

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
)

// ErrNoFolder means that the environment names no folder.
var ErrNoFolder = errors.New("neither $STATE_DIRECTORY, $XDG_STATE_HOME nor $HOME is set")

// Folder returns the folder of this user's witnesses: $STATE_DIRECTORY, which
// systemd sets for a service, or else idworker in $XDG_STATE_HOME, which is
// ~/.local/state by default. The folder may not exist.
func Folder() (string, error) {
	if dirs := os.Getenv("STATE_DIRECTORY"); dirs != "" {
		first, _, _ := strings.Cut(dirs, string(os.PathListSeparator))
		return first, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as its specification demands
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", ErrNoFolder
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "idworker"), nil
}

// Shelf is the part of a folder about one prefix at one address. The zero Shelf
// has no witnesses.
type Shelf struct {
	Folder  string
	Address string // a name of a folder, see Address
	Prefix  messages.Prefix
}

// maxAddress bounds the name of a folder: file systems allow 255 bytes.
const maxAddress = 200

// Address returns the name of a folder for an address: a NATS context, or
// HOST:PORT of each server, without a scheme or login, in any order. A JetStream
// domain has another JetStream at the same address.
func Address(context string, hosts []string, domain string) string {
	var name string
	if context != "" {
		name = "context " + context
	} else {
		hosts = slices.Clone(hosts)
		for i, host := range hosts {
			host = strings.ToLower(host)
			if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
				host = net.JoinHostPort(strings.Trim(host, "[]"), "4222")
			}
			hosts[i] = host
		}
		slices.Sort(hosts)
		name = strings.Join(slices.Compact(hosts), ",")
	}
	if domain != "" {
		name += " domain " + domain
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`:/\<>"|?*%`, r) { // not in a name on Windows
			return '_'
		}
		return r
	}, name)
	if len(name) > maxAddress || strings.HasPrefix(name, ".") {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(name)) // never fails
		name = fmt.Sprintf("%.*s %x", maxAddress-17, strings.TrimLeft(name, "."), sum.Sum64())
	}
	return name
}

const (
	suffix     = ".witness"
	lockSuffix = ".lock"
	timeFormat = "20060102T150405Z"

	// maxProcesses bounds the search for a free file.
	maxProcesses = 1000
)

// Note is a witness that was found.
type Note struct {
	Path         string
	Installation string    // its ID; empty if unknown
	Noted        time.Time // the latest
}

// Notes returns the witnesses of the shelf, the latest first. A file that cannot
// be read is no evidence.
func (s Shelf) Notes() (all []Note) {
	if s.Folder == "" {
		return nil
	}
	files, _ := os.ReadDir(filepath.Join(s.Folder, s.Address)) // may not exist
	for _, f := range files {
		parts := strings.Split(strings.TrimSuffix(f.Name(), suffix), ".")
		if info, err := f.Info(); err == nil && strings.HasSuffix(f.Name(), suffix) && len(parts) == 4 && parts[0] == string(s.Prefix) {
			all = append(all, Note{filepath.Join(s.Folder, s.Address, f.Name()), parts[1], info.ModTime()})
		}
	}
	slices.SortStableFunc(all, func(a, b Note) int { return b.Noted.Compare(a.Noted) })
	return all
}

// Conclusion is what a start concludes.
type Conclusion int

// The conclusions.
const (
	Start Conclusion = iota
	Warn
	Refuse
)

// Judge compares the installation at an address, empty if there is none, with
// the witnesses of that address. The package comment has the table.
func Judge(here string, notes []Note) Conclusion {
	own := func(n Note) bool { return n.Installation == here || n.Installation == "" }
	switch {
	case len(notes) == 0:
		return Start
	case here == "":
		return Refuse
	case slices.ContainsFunc(notes, own):
		return Start
	}
	return Warn
}

// LostError is the refusal to make an installation beside a witness of another.
type LostError struct {
	Prefix messages.Prefix
	Note   Note // the latest
}

func (e *LostError) Error() string {
	return fmt.Sprintf("NATS has no installation of prefix %s, but this machine has noted %s here, last at %s (witness %s): its data was lost, or this is another server or account",
		e.Prefix, cmp.Or(e.Note.Installation, "one"), e.Note.Noted.UTC().Format(time.DateTime+" UTC"), e.Note.Path)
}

// Problem is part of [problem.Problem].
func (e *LostError) Problem() (problem.Kind, []any) { return problem.Witnessed, nil }

// Evidence returns the files about an installation that was created at a time,
// under whichever address. Another user's are left out.
func (s Shelf) Evidence(id string, created time.Time) (paths []string) {
	if s.Folder == "" {
		return nil
	}
	addresses, _ := os.ReadDir(s.Folder)
	for _, address := range addresses {
		files, _ := os.ReadDir(filepath.Join(s.Folder, address.Name()))
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), s.name(id, created)) || !strings.HasSuffix(f.Name(), suffix) {
				continue
			}
			path := filepath.Join(s.Folder, address.Name(), f.Name())
			if file, err := os.Open(path); err == nil || !errors.Is(err, fs.ErrPermission) {
				_ = file.Close() // nil is an error that does not matter
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// name returns what the names of all files about an installation begin with.
func (s Shelf) name(id string, created time.Time) string {
	return string(s.Prefix) + "." + id + "." + created.UTC().Format(timeFormat) + "."
}

// File is the witness of this process. Until Close, no other process writes it.
type File struct {
	*register.Witness
	lock *flock.Flock
}

// Close lets another process have the file, as the end of this process does.
func (f *File) Close() { _ = f.lock.Unlock() }

// Make makes the folder of the shelf.
func (s Shelf) Make() error { return os.MkdirAll(filepath.Join(s.Folder, s.Address), 0o700) }

// Open opens a file for this process about an installation, and reads all others
// as evidence. It creates what is missing. An error of [register.ErrWitness] is
// about evidence that cannot be read; after any other there can be no witness.
func (s Shelf) Open(id string, created time.Time) (*File, error) {
	if err := s.Make(); err != nil {
		return nil, err
	}
	for n := range maxProcesses {
		base := filepath.Join(s.Folder, s.Address, s.name(id, created)+strconv.Itoa(n+1))
		lock := flock.New(base+lockSuffix, flock.SetPermissions(0o600))
		locked, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if !locked {
			_ = lock.Close()
			continue
		}
		path := base + suffix
		others := slices.DeleteFunc(s.Evidence(id, created), func(p string) bool { return p == path })
		w, err := register.OpenWitness(path, others...)
		if err == nil && w.Fresh() {
			if err = w.Create(); err != nil {
				err = errors.New(err.Error()) // the place is unusable, not evidence
			}
		}
		if err != nil {
			_ = lock.Unlock()
			return nil, err
		}
		return &File{w, lock}, nil
	}
	return nil, fmt.Errorf("%s: %d processes have a witness there", filepath.Join(s.Folder, s.Address), maxProcesses)
}
