package witness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/process"
)

var created = time.Date(2026, 12, 1, 1, 2, 3, 4, time.UTC)

// TestJudge is the table of the package comment.
func TestJudge(t *testing.T) {
	a, b, unknown := Note{Installation: "A"}, Note{Installation: "B"}, Note{Path: "explicit"}
	for _, c := range []struct {
		here  string
		notes []Note
		want  Conclusion
	}{
		{"", nil, Start},
		{"", []Note{a}, Refuse},
		{"", []Note{unknown}, Refuse},
		{"", []Note{a, b}, Refuse},
		{"A", nil, Start},
		{"A", []Note{a}, Start},
		{"A", []Note{b, a}, Start},
		{"A", []Note{unknown}, Start}, // the register is compared with it
		{"A", []Note{b}, Warn},
	} {
		if got := Judge(c.here, c.notes); got != c.want {
			t.Errorf("installation %q, witnesses %v: %v, want %v", c.here, c.notes, got, c.want)
		}
	}
}

// TestFolder: the environment names the folder, and perhaps none.
func TestFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has other paths")
	}
	for _, c := range []struct{ service, state, home, want string }{
		{"/var/lib/idworker/loader", "/state", "/home/me", "/var/lib/idworker/loader"},
		{"/var/lib/a:/var/lib/b", "", "", "/var/lib/a"},
		{"", "/state", "/home/me", "/state/idworker"},
		{"", "relative", "/home/me", "/home/me/.local/state/idworker"},
		{"", "", "/home/me", "/home/me/.local/state/idworker"},
		{"", "/state", "", "/state/idworker"},
		{"", "", "", ""},
	} {
		t.Setenv("STATE_DIRECTORY", c.service)
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		got, err := Folder()
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, ErrNoFolder) {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// TestAddress: the same servers have the same name, in any order, and others
// another one, which every file system takes.
func TestAddress(t *testing.T) {
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintf("nats-%d.example.org:4222", i)
	}
	names := make(map[string]bool)
	for _, group := range [][]string{
		{Address("", []string{"a", "b:4223"}, ""), Address("", []string{"B:4223", "a:4222", "A"}, "")},
		{Address("", []string{"a"}, "")},
		{Address("", []string{"a"}, "hub")},
		{Address("", []string{"::1"}, ""), Address("", []string{"[::1]:4222"}, "")},
		{Address("prod", nil, "")},
		{Address("/etc/nats/prod.json", nil, "")},
		{Address("", many, "")},
		{Address("", many[1:], "")},
		{Address("", []string{".."}, "")},
	} {
		for _, name := range group {
			if name != group[0] || names[name] && name != group[0] || len(name) > maxAddress || name != filepath.Base(name) || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `:\`) {
				t.Errorf("%q beside %q", name, group[0])
			}
		}
		if names[group[0]] {
			t.Errorf("%q is that of other servers, too", group[0])
		}
		names[group[0]] = true
	}
}

// TestOpen: each process has a file of its own, which the next process
// continues, and reads those about the same installation as evidence, whatever
// the address was.
func TestOpen(t *testing.T) {
	site := Shelf{t.TempDir(), "here", "ids"}
	open := func(s Shelf, id string, at time.Time) *File {
		t.Helper()
		f, err := s.Open(id, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f
	}
	first, second := open(site, "A", created), open(site, "A", created)
	elsewhere := site
	elsewhere.Address = "elsewhere"
	moved := open(elsewhere, "A", created)
	other := site
	other.Prefix = "ids-2"
	distinct := map[string]bool{first.Path(): true, second.Path(): true, moved.Path(): true}
	for _, f := range []*File{open(site, "B", created), open(site, "A", created.Add(time.Hour)), open(other, "A", created)} {
		distinct[f.Path()] = true
	}
	if len(distinct) != 6 {
		t.Errorf("shared files: %v", distinct)
	}
	want := map[string]bool{first.Path(): true, second.Path(): true, moved.Path(): true}
	found := site.Evidence("A", created)
	for _, path := range found {
		if !want[path] {
			t.Errorf("%s is evidence", path)
		}
	}
	if len(found) != len(want) {
		t.Errorf("evidence %v, want %v", found, want)
	}
	first.Close()
	if again := open(site, "A", created); again.Path() != first.Path() {
		t.Errorf("the next process has %s, want %s", again.Path(), first.Path())
	}
	if len(site.Notes()) != 4 || len(other.Notes()) != 1 || len(elsewhere.Notes()) != 1 {
		t.Errorf("notes %v, %v, %v", site.Notes(), other.Notes(), elsewhere.Notes())
	}
	for _, n := range elsewhere.Notes() {
		if n.Installation != "A" || n.Path != moved.Path() || time.Since(n.Noted) > time.Hour {
			t.Errorf("note %+v", n)
		}
	}
	if len(Shelf{}.Notes()) > 0 || len((Shelf{}).Evidence("A", created)) > 0 {
		t.Error("the zero shelf has witnesses")
	}
}

// TestNoPlace: without a place there is no witness, which is no damaged
// evidence.
func TestNoPlace(t *testing.T) {
	_, err := Shelf{process.NoFolder, "here", "ids"}.Open("A", created)
	if err == nil {
		t.Fatal("there is a witness")
	}
	site := Shelf{t.TempDir(), "here", "ids"}
	f, err := site.Open("A", created)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(f.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := site.Open("A", created); err == nil || errors.Is(err, fs.ErrPermission) {
		t.Errorf("a damaged witness: %v", err)
	}
}
