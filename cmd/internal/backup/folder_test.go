package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/store/agreement"
)

// written writes a backup into a new folder.
func written(t *testing.T, b Backup) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "backup")
	must(t, b.Write(folder))
	return folder
}

// TestFolderThatIsNotWhole: a backup of which any byte was changed, or any
// part is missing, is refused in one sentence, and so is that of a newer version.
func TestFolderThatIsNotWhole(t *testing.T) {
	t.Parallel()
	whole := written(t, taken(t))
	if _, err := Read(whole); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "changed")
	must(t, os.CopyFS(folder, os.DirFS(whole)))
	refused := func(what, says string) {
		t.Helper()
		_, err := Read(folder)
		switch {
		case !errors.Is(err, ErrFolder):
			t.Errorf("%s: %v", what, err)
		case !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %v does not say %q in one sentence", what, err, says)
		}
	}
	entries, err := os.ReadDir(folder)
	must(t, err)
	if len(entries) != 3 {
		t.Errorf("files: %v", entries)
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(filepath.Join(whole, entry.Name()))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", entry.Name(), info.Mode())
		}
		data, err := os.ReadFile(path)
		must(t, err)
		for n := range data {
			changed := slices.Clone(data)
			changed[n] ^= 1
			must(t, os.WriteFile(path, changed, 0o600))
			refused(fmt.Sprintf("byte %d of %s changed", n, entry.Name()), "")
			must(t, os.WriteFile(path, data[:n], 0o600))
			refused(fmt.Sprintf("%s cut after %d bytes", entry.Name(), n), "")
		}
		must(t, os.WriteFile(path, append(slices.Clone(data), '\n'), 0o600))
		refused(entry.Name()+" is longer", "SHA256SUMS")
		must(t, os.Remove(path))
		refused(entry.Name()+" is missing", entry.Name()+" is missing")
		must(t, os.WriteFile(path, data, 0o600))
	}
	manifest := filepath.Join(folder, "backup.json")
	data, err := os.ReadFile(manifest)
	must(t, err)
	must(t, os.WriteFile(manifest, bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1), 0o600))
	refused("a newer format", "a newer version of idworker wrote it")
}

// TestFolderIsNew: a backup is not written into a folder that is in use.
func TestFolderIsNew(t *testing.T) {
	t.Parallel()
	b := taken(t)
	if err := b.Write(written(t, b)); !errors.Is(err, ErrExists) {
		t.Errorf("written again: %v", err)
	}
	empty := t.TempDir()
	must(t, b.Write(empty))
	if again, err := Read(empty); err != nil || again.Installation != b.Installation {
		t.Errorf("in an empty folder: %s, %v", again.Installation, err)
	}
}

// TestEditedBackup: a backup whose settings cannot be restored is refused when it
// is read, also with right checksums.
func TestEditedBackup(t *testing.T) {
	t.Parallel()
	b := taken(t)
	read := func(change func(*Backup)) error {
		t.Helper()
		folder, edited := written(t, b), b
		edited.Config = maps.Clone(b.Config)
		change(&edited)
		manifest, err := json.Marshal(edited.Manifest)
		list := new(strings.Builder)
		err = errors.Join(err, edited.List.Text(list), os.WriteFile(filepath.Join(folder, manifestFile), manifest, 0o600),
			os.WriteFile(filepath.Join(folder, tagsFile), []byte(list.String()), 0o600))
		sums := fmt.Sprintf("%x  %s\n%x  %s\n", sha256.Sum256(manifest), manifestFile, sha256.Sum256([]byte(list.String())), tagsFile)
		if err = errors.Join(err, os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err = Read(folder)
		return err
	}
	if err := read(func(*Backup) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Backup){
		"a floor below 1":      func(b *Backup) { b.Floor = -5 },
		"a key with a path":    func(b *Backup) { b.Config["../x"] = "y" },
		"a key with a space":   func(b *Backup) { b.Enrichments = map[string]string{"a b": "y"} },
		"a wildcard":           func(b *Backup) { b.Config["*"] = "y" },
		"a bad prefix":         func(b *Backup) { b.Prefix = "a.b" },
		"7 replicas":           func(b *Backup) { b.Replicas = 7 },
		"no replicas":          func(b *Backup) { b.Replicas = 0 },
		"no time":              func(b *Backup) { b.Taken = time.Time{} },
		"another ID":           func(b *Backup) { b.Installation = "other" },
		"an ID without a time": func(b *Backup) { b.Config[agreement.InstallationKey] = b.Installation },
		"an odd decision":      func(b *Backup) { b.Decisions = []string{"a b"} },
		"an odd layout":        func(b *Backup) { b.Config["layout"] = "41 bits" },
		"an odd outage":        func(b *Backup) { b.Config["outage"] = "soon" },
		"a negative first ID": func(b *Backup) {
			b.List.Tags = slices.Clone(b.List.Tags)
			b.List.Tags[0].Next = -1
		},
	} {
		if err := read(change); !errors.Is(err, ErrFolder) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
