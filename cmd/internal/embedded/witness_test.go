package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/testing/natstest"
)

// copyFolder copies a folder with its witness, if that is beside it.
func copyFolder(t *testing.T, to, from string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	if _, missing := os.Stat(WitnessOf(from)); missing == nil {
		err = errors.Join(err, os.CopyFS(WitnessOf(to), os.DirFS(WitnessOf(from))))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// remove removes a file or folder.
func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// write appends to a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// used makes a data folder in which something is: bucket b with x at revision 3, y and z.
// older is what the server's files were before the last two writes.
func used(t *testing.T) (whole, older string) {
	t.Helper()
	whole, older = filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "older")
	s := start(t, config(whole))
	put(t, createBucket(t, s, "b"), "x", "y")
	s.Stop()
	if err := os.CopyFS(older, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	s = start(t, config(whole))
	if err := s.Witness(t.Context(), []string{"b"}); err != nil {
		t.Fatal(err)
	}
	put(t, createBucket(t, s, "b"), "x", "z")
	natstest.Eventually(t, "all is noted", func() bool {
		return strings.Contains(read(t, filepath.Join(WitnessOf(whole), "b.witness")), "4 - z\n")
	})
	s.Stop()
	return whole, older
}

// TestDamage damages a folder, and starts a server on it, twice, since people start again
// what refused to start.
func TestDamage(t *testing.T) {
	t.Parallel()
	whole, older := used(t)
	file := func(folder string) string { return filepath.Join(WitnessOf(folder), "b.witness") }
	for name, test := range map[string]struct {
		do    func(t *testing.T, folder string)
		says  string // nothing if it is to start
		error error  // ErrDamaged, unless it says another
	}{
		"nothing": {do: func(*testing.T, string) {}},
		"an older copy of the server's files": {do: func(t *testing.T, f string) {
			remove(t, filepath.Join(f, "jetstream"))
			if err := os.CopyFS(filepath.Join(f, "jetstream"), os.DirFS(filepath.Join(older, "jetstream"))); err != nil {
				t.Fatal(err)
			}
		}, says: "of bucket b is at revision"},
		"an older copy of the folder": {do: func(t *testing.T, f string) { remove(t, f); copyFolder(t, f, older) }, says: "of bucket b is at revision"},
		"the folder is empty":         {do: func(t *testing.T, f string) { remove(t, f) }, says: "bucket b is missing"},
		"no files of the server":      {do: func(t *testing.T, f string) { remove(t, filepath.Join(f, "jetstream")) }, says: "bucket b is missing"},
		"a key is older than seen":    {do: func(t *testing.T, f string) { write(t, file(f), "5 - x\n") }, says: "key x of bucket b is at revision 3, but was seen at revision 5"},
		"a key is missing":            {do: func(t *testing.T, f string) { write(t, file(f), "1 - lost\n") }, says: "key lost of bucket b is missing, but was seen at revision 1"},
		"a bucket is missing":         {do: func(t *testing.T, f string) { write(t, filepath.Join(WitnessOf(f), "c.witness"), "") }, says: "bucket c is missing"},
		"damage behind a hole":        {do: func(t *testing.T, f string) { write(t, file(f), string(make([]byte, 100))+"\n999 - x\n") }, says: "was seen at revision 999"},
		"the bucket is another one":   {do: func(t *testing.T, f string) { write(t, file(f), "created 2026-01-02T03:04:05Z\n") }, says: "bucket b was made again"},
		"a file is missing":           {do: func(t *testing.T, f string) { remove(t, file(f)) }},
		"the last line is torn":       {do: func(t *testing.T, f string) { write(t, file(f), "999 x") }},
		"a hole from a power cut":     {do: func(t *testing.T, f string) { write(t, file(f), string(make([]byte, 100))+"\n") }},
		"lines that are none": {do: func(t *testing.T, f string) {
			write(t, file(f), "\n999\nx 999\n-5 x\n999 a b\n9 0 x\n9 9 9 x\n99999999999999999999 x\n")
		}},
		"a rewrite that was cut off": {do: func(t *testing.T, f string) { write(t, file(f)+".new", "999 x\n") }},
		"no witness":                 {do: func(t *testing.T, f string) { remove(t, WitnessOf(f)) }, says: "nothing is in", error: ErrNoWitness},
		"an empty folder for a witness": {do: func(t *testing.T, f string) {
			remove(t, WitnessOf(f))
			if err := os.Mkdir(WitnessOf(f), 0o700); err != nil {
				t.Fatal(err)
			}
		}, says: "nothing is in", error: ErrNoWitness},
		"neither data nor witness, but a name": {do: func(t *testing.T, f string) {
			remove(t, WitnessOf(f))
			remove(t, filepath.Join(f, "jetstream"))
		}, says: "nothing is in", error: ErrNoWitness},
		"no witness and no name": {do: func(t *testing.T, f string) {
			remove(t, WitnessOf(f))
			remove(t, filepath.Join(f, idFile))
		}, says: "nothing is in", error: ErrNoWitness},
		"no witness but one of an older version, from before": {do: func(t *testing.T, f string) {
			remove(t, WitnessOf(f))
			write(t, filepath.Join(f, "b.witness"), "1 x\n")
		}, says: "nothing is in", error: ErrNoWitness},
		"the witness of another folder": {do: func(t *testing.T, f string) {
			remove(t, filepath.Join(WitnessOf(f), idFile))
			write(t, filepath.Join(WitnessOf(f), idFile), "another\n")
		}, says: "is the witness of another folder", error: ErrNoWitness},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "[data]")
			copyFolder(t, folder, whole)
			test.do(t, folder)
			for range 2 {
				if test.says == "" {
					start(t, config(folder)).Stop()
					continue
				}
				want := test.error
				if want == nil {
					want = ErrDamaged
				}
				err := fails(t, config(folder))
				var refused *RecoverError
				if !errors.Is(err, ErrFolder) || !errors.Is(err, want) || !strings.Contains(err.Error(), test.says) || !errors.As(err, &refused) {
					t.Fatalf("%v, want %v and %q", err, want, test.says)
				}
				if refused.Folder != folder || refused.Witness != WitnessOf(folder) || !strings.Contains(err.Error(), folder) {
					t.Errorf("%v does not name the folder", err)
				}
			}
		})
	}
}

// TestNewInstallation: a new folder is announced, with its path, and no other start is. That the
// process was killed before it kept anything makes no difference.
func TestNewInstallation(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	cfg := config(filepath.Join(t.TempDir(), "data"))
	cfg.Log = zap.New(core)
	announced := func() int { return logs.FilterMessageSnippet("new installation in " + cfg.Folder).Len() }
	s := start(t, cfg)
	if announced() != 1 || s.Folder() != cfg.Folder || s.WitnessFolder() != cfg.Folder+".witness" {
		t.Errorf("announced %d times; data in %s, witness in %s", announced(), s.Folder(), s.WitnessFolder())
	}
	s.Stop()
	start(t, cfg).Stop() // nothing is in it yet
	s = start(t, cfg)
	put(t, createBucket(t, s, "b"), "x")
	s.Stop()
	start(t, cfg).Stop()
	if announced() != 1 {
		t.Errorf("announced %d times in four starts", announced())
	}
}

// TestWitnessElsewhere: the witness is where it is told to be, and of one server only.
func TestWitnessElsewhere(t *testing.T) {
	t.Parallel()
	cfg, other := config(filepath.Join(t.TempDir(), "data")), config(filepath.Join(t.TempDir(), "other"))
	cfg.Witness = filepath.Join(t.TempDir(), "some", "where")
	other.Witness = cfg.Witness
	s := start(t, cfg)
	put(t, createBucket(t, s, "b"), "x")
	if err := s.Witness(t.Context(), []string{"b"}); err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(cfg.Witness, "b.witness")) == "" || s.WitnessFolder() != cfg.Witness {
		t.Error("nothing is noted there")
	}
	if _, err := os.Stat(WitnessOf(cfg.Folder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is one beside the folder, too: %v", err)
	}
	if err := fails(t, other); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), cfg.Witness) {
		t.Errorf("two servers with one witness: %v", err)
	}
	s.Stop()
	if err := fails(t, other); !errors.Is(err, ErrDamaged) {
		t.Errorf("a new folder with the witness of another: %v", err)
	}
	cfg.Witness = ""
	if err := fails(t, cfg); !errors.Is(err, ErrNoWitness) {
		t.Errorf("the folder without its witness: %v", err)
	}
}

// TestTakeOver: a witness that an older version had inside the data folder moves out of it, once,
// with what it saw; wherever the process was killed meanwhile.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	whole, older := used(t)
	old := func(t *testing.T, from string) string { // as the older version left it
		folder := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(folder, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(folder, idFile))
		write(t, filepath.Join(folder, "b.witness"), "1 x\n2 y\n3 x\n4 z\n")
		return folder
	}
	moved := func(t *testing.T, folder string) {
		t.Helper()
		start(t, config(folder)).Stop()
		if read(t, filepath.Join(folder, "b.witness")) != "" || !strings.Contains(read(t, filepath.Join(WitnessOf(folder), "b.witness")), "4 - z\n") {
			t.Error("it is where it was")
		}
		remove(t, filepath.Join(folder, "jetstream"))
		if err := os.CopyFS(filepath.Join(folder, "jetstream"), os.DirFS(filepath.Join(older, "jetstream"))); err != nil {
			t.Fatal(err)
		}
		if err := fails(t, config(folder)); !errors.Is(err, ErrDamaged) {
			t.Errorf("an older copy, afterwards: %v", err)
		}
	}
	t.Run("moves", func(t *testing.T) { moved(t, old(t, whole)) })
	t.Run("is compared", func(t *testing.T) {
		folder := old(t, older)
		for range 2 {
			if err := fails(t, config(folder)); !errors.Is(err, ErrDamaged) {
				t.Errorf("an older copy: %v", err)
			}
		}
	})
	t.Run("killed before the files were removed", func(t *testing.T) {
		folder := old(t, whole)
		if err := os.Mkdir(WitnessOf(folder), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(WitnessOf(folder), "b.witness"), "3 - x\n4 - z\n")
		moved(t, folder)
	})
	t.Run("killed before the data had the name", func(t *testing.T) {
		folder := old(t, whole)
		start(t, config(folder)).Stop()
		remove(t, filepath.Join(folder, idFile))
		write(t, filepath.Join(folder, "b.witness"), "1 x\n")
		moved(t, folder)
	})
}
