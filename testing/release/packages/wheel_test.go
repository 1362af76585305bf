package packages

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/clients"
	"github.com/idworker/idworker/testing/tier"
)

// TestWheel: a release has the Python client as pip installs it, with all its
// modules and types, and it needs nats-py alone. The source distribution makes
// the same wheel.
func TestWheel(t *testing.T) {
	tier.Release(t)
	wheel := one(t, "idworker_client-*-py3-none-any.whl")
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	var got []string
	for _, f := range archive.File {
		got = append(got, f.Name)
	}
	base := strings.TrimSuffix(filepath.Base(wheel), "-py3-none-any.whl")
	want := moduleFiles(t)
	for _, name := range []string{"METADATA", "RECORD", "WHEEL", "licenses/LICENSE"} {
		want = append(want, base+".dist-info/"+name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the wheel has %q, want %q", got, want)
	}
	metadata := string(content(t, &archive.Reader, base+".dist-info/METADATA"))
	var needs []string
	for _, need := range regexp.MustCompile(`(?m)^Requires-Dist: ([\w-]+)(.*)`).FindAllStringSubmatch(metadata, -1) {
		if !strings.Contains(need[2], "extra ==") {
			needs = append(needs, need[1])
		}
	}
	if !slices.Equal(needs, []string{"nats-py"}) || !strings.Contains(metadata, "\nLicense-Expression: Apache-2.0\n") {
		t.Errorf("it needs %q, want nats-py; metadata:\n%s", needs, metadata)
	}

	// hatchling gives all files one time.
	rebuilt := t.TempDir()
	output(t, filepath.Join(rebuilt, "source"), "tar", "-xzf", absolute(t, one(t, base+".tar.gz")), "--strip-components=1")
	output(t, rebuilt, clientPython, "-m", "build", "--no-isolation", "--wheel", "--outdir", rebuilt, "source")
	first, err := os.ReadFile(wheel)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(filepath.Join(rebuilt, filepath.Base(wheel))); err != nil || string(first) != string(second) {
		t.Errorf("the source distribution makes another wheel, of %d bytes: %v", len(second), err)
	}
}

// TestWheelInstalled: a program can import the installed wheel. A module whose
// extra is missing names it.
func TestWheelInstalled(t *testing.T) {
	tier.Release(t)
	environment := filepath.Join(t.TempDir(), "environment")
	output(t, environment, clientPython, "-m", "venv", ".")
	python := filepath.Join(environment, "bin", "python")
	output(t, environment, python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", absolute(t, one(t, "idworker_client-*.whl")))

	// Packages of the client's own environment need no network.
	const packages = `import sysconfig; print(sysconfig.get_path("purelib"))`
	to, from := output(t, environment, python, "-c", packages), output(t, environment, clientPython, "-c", packages)
	if err := os.Symlink(filepath.Join(from, "nats"), filepath.Join(to, "nats")); err != nil {
		t.Fatal(err)
	}
	output(t, environment, python, "-c", "from idworker_client import Idworker, SyncIdworker, number")
	cmd := exec.CommandContext(t.Context(), python, "-c", "import idworker_client.opaque")
	cmd.Dir = environment
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasSuffix(string(out), "\nImportError: idworker_client.opaque needs cryptography: pip install 'idworker-client[opaque]'\n") {
		t.Errorf("idworker_client.opaque without its extra: %v\n%s", err, out)
	}
}

// clientPython is the Python of make deps.
var clientPython = filepath.Join(clients.Python, ".venv", "bin", "python")

// moduleFiles are the files of the package.
func moduleFiles(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(clients.Python, "src", "idworker_client", "*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("modules: %q, %v", files, err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "__pycache__" {
			names = append(names, "idworker_client/"+name)
		}
	}
	return names
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// output runs a program in a folder, which it makes, and returns its output.
func output(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}
