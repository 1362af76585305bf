package pages

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// made are folders and files that are no part of the repository.
var made = []string{".git", "bin", "dist", "node_modules", ".driver", ".venv", "target", "nats-data", "idworker-data", "idworker-data.witness"}

// copyRepository copies the repository without build products.
func copyRepository(to string) error {
	return filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(made, d.Name()) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
}

// kit is the equipment to run pages with.
type kit struct {
	tools string // a folder with the commands nats, nats-server and nsc
	dir   string // where each page finds its copy; the same for all, so that the compiler has it in its cache
	built string // bin/idworker, to begin with
}

func newKit(t *testing.T) kit {
	t.Helper()
	dir := t.TempDir()
	k := kit{tools: filepath.Join(dir, "tools"), dir: filepath.Join(dir, "idworker"), built: filepath.Join(dir, "built")}
	run := func(env string, args ...string) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = k.dir, append(os.Environ(), "GOFLAGS=-buildvcs=false", env)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if err := copyRepository(k.dir); err != nil {
		t.Fatal(err)
	}
	run("GOBIN="+k.tools, "go", "install", NATSCLI)
	run("", "go", "build", "-o", filepath.Join(k.tools, "nats-server"), "github.com/nats-io/nats-server/v2")
	run("", "go", "-C", "testing/nsc", "build", "-o", filepath.Join(k.tools, "nsc"), "github.com/nats-io/nsc/v2")
	run("", "go", "build", "-o", "bin/idworker", "./cmd/idworker")
	if err := os.Rename(filepath.Join(k.dir, "bin/idworker"), k.built); err != nil {
		t.Fatal(err)
	}
	return k
}

// fresh makes the copy of a page.
func (k kit) fresh(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(k.dir); err != nil {
		t.Fatal(err)
	}
	if err := copyRepository(k.dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(k.built)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(k.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.dir, "bin/idworker"), data, 0o755); err != nil {
		t.Fatal(err)
	}
}
