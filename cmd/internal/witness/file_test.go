package witness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestFile: the latest line of a key counts, a long file is rewritten as one line a key, and
// nothing is lost with that.
func TestFile(t *testing.T) {
	w, err := Open(t.TempDir(), nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	f, r := w.file("b"), newRecord()
	r.created = time.Unix(1, 5).UTC()
	path := filepath.Join(w.Folder().Path, "b"+fileSuffix)
	add := func(key string, revision uint64) {
		t.Helper()
		r.marks[key] = mark{revision, int64(revision) * 10}
		if err := f.add(key, r); err != nil {
			t.Fatal(err)
		}
	}
	add("before", 1)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("there is a file before it can be whole: %v", err)
	}
	if err := os.WriteFile(path+".new", []byte("999 torn"), 0o600); err != nil { // a crash left it
		t.Fatal(err)
	}
	if err := f.rewrite(r); err != nil {
		t.Fatal(err)
	}
	if data := content(t, path); data != "created 1970-01-01T00:00:01.000000005Z\n1 10 before\n" {
		t.Errorf("after the first rewrite: %q", data)
	}
	revision := uint64(1)
	for range maxLines(3) - 1 {
		revision++
		add(fmt.Sprint("k", revision%2), revision)
	}
	if got := strings.Count(content(t, path), "\n"); got != maxLines(3)+1 {
		t.Fatalf("%d lines, want %d", got, maxLines(3)+1)
	}
	add("k0", revision+1)
	if got := strings.Count(content(t, path), "\n"); got != 4 {
		t.Errorf("%d lines after a rewrite, want one for each key", got)
	}
	add("k1", revision+2)
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	got, err := readFile(path)
	if err != nil || len(got.marks) != 3 || !got.created.Equal(r.created) {
		t.Fatalf("%v, %v", got, err)
	}
	for key, m := range r.marks {
		if got.marks[key] != m {
			t.Errorf("%s: %v, want %v", key, got.marks[key], m)
		}
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("the new file is left behind: %v", err)
	}
}

// TestReadFile: what older versions wrote is read, and what a crash left is not.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b"+fileSuffix)
	text := "1 old\n2 - new\n3 30 counter\n4 40 counter\n" +
		"999\nx 999\nx 9 k\n5 0 k\n5 -1 k\n5 9 k k\n-5 k\n99999999999999999999 k\n\x00\x00 k\ncreated never\n6 60 torn"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readFile(path)
	if err != nil || len(r.marks) != 3 || r.marks["old"] != (mark{1, 0}) || r.marks["new"] != (mark{2, 0}) || r.marks["counter"] != (mark{4, 40}) || !r.created.IsZero() {
		t.Errorf("%v, %v", r, err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
