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

	"github.com/idworker/idworker/store/register"
)

// copyFolder copies a folder.
func copyFolder(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
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

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// TestDamage damages a folder, and starts a server on it twice, because
// operators retry a failed start.
func TestDamage(t *testing.T) {
	t.Parallel()
	whole, older, _ := used(t)
	another, _, _ := used(t)
	for name, test := range map[string]struct {
		do   func(t *testing.T, folder string)
		says string // nil if it must start
		want error
	}{
		"nothing": {do: func(*testing.T, string) {}},
		"an older copy of the server's files": {func(t *testing.T, f string) {
			remove(t, filepath.Join(f, "jetstream"))
			copyFolder(t, filepath.Join(f, "jetstream"), filepath.Join(older, "jetstream"))
		}, "bucket ids_register is at sequence 4, was at 54", ErrDamaged},
		"an older copy of the folder": {func(t *testing.T, f string) { remove(t, f); copyFolder(t, f, older) }, "is at sequence 4", ErrDamaged},
		"the folder is empty":         {func(t *testing.T, f string) { remove(t, f) }, "is missing", ErrDamaged},
		"no files of the server":      {func(t *testing.T, f string) { remove(t, filepath.Join(f, "jetstream")) }, "is missing", ErrDamaged},
		"the settings are gone": {func(t *testing.T, f string) {
			remove(t, filepath.Join(f, "jetstream", "$G", "streams", "KV_ids_config"))
		}, "ids_config", ErrDamaged},
		"a register is another one": {func(t *testing.T, f string) {
			remove(t, f)
			copyFolder(t, f, another.Folder)
		}, "witness of another register", ErrNoWitness},
		"no witness": {func(t *testing.T, f string) { remove(t, WitnessOf(f)) }, ": no ", ErrNoWitness},
		"an unreadable witness": {func(t *testing.T, f string) {
			if err := os.WriteFile(WitnessOf(f), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "[data].witness", register.ErrWitness},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "[data]")
			copyFolder(t, folder, whole.Folder)
			if err := os.WriteFile(WitnessOf(folder), []byte(read(t, WitnessOf(whole.Folder))), 0o600); err != nil {
				t.Fatal(err)
			}
			test.do(t, folder)
			for range 2 {
				if test.want == nil {
					start(t, config(folder)).Stop()
					continue
				}
				err := fails(t, config(folder))
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), folder) {
					t.Fatalf("%v, want %v and %q", err, test.want, test.says)
				}
				var refused *RecoverError
				if isFolder := errors.As(err, &refused); isFolder && (refused.Folder != folder || refused.Witness != WitnessOf(folder)) {
					t.Errorf("%+v does not name the folder", refused)
				}
			}
		})
	}
}

// TestNewInstallation: the log announces a new folder, with its path, and no
// other start. A process killed before its first write makes no difference.
func TestNewInstallation(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	cfg := config(filepath.Join(t.TempDir(), "data"))
	cfg.Log = zap.New(core)
	announced := func() int {
		return logs.FilterMessageSnippet("new installation").FilterField(zap.String("data", cfg.Folder)).Len()
	}
	s := start(t, cfg)
	if announced() != 1 || s.Folder() != cfg.Folder || s.Witness().Path() != cfg.Folder+".witness" {
		t.Errorf("announced %d times; data in %s, witness in %s", announced(), s.Folder(), s.Witness().Path())
	}
	s.Stop()
	start(t, cfg).Stop() // still empty
	s = start(t, cfg)
	shut(t, openStore(t, s))
	s.Stop()
	start(t, cfg).Stop()
	if announced() != 1 {
		t.Errorf("announced %d times in four starts", announced())
	}
}

// TestWitnessElsewhere: the witness is at the given path, and of one register.
func TestWitnessElsewhere(t *testing.T) {
	t.Parallel()
	cfg, other := config(filepath.Join(t.TempDir(), "data")), config(filepath.Join(t.TempDir(), "other"))
	cfg.Witness = filepath.Join(t.TempDir(), "witness")
	other.Witness = cfg.Witness
	s := start(t, cfg)
	shut(t, openStore(t, s))
	s.Stop()
	if read(t, cfg.Witness) == "" {
		t.Error("nothing is noted there")
	}
	if _, err := os.Stat(WitnessOf(cfg.Folder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is one beside the folder, too: %v", err)
	}
	if err := fails(t, other); !errors.Is(err, ErrDamaged) {
		t.Errorf("a new folder with the witness of another: %v", err)
	}
	cfg.Witness = ""
	if err := fails(t, cfg); !errors.Is(err, ErrNoWitness) {
		t.Errorf("the folder without its witness: %v", err)
	}
}
