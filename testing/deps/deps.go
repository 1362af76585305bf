// Package deps finds the programs that some tests need and idworker does not.
// Tests that miss a program are skipped; make test lists them at its end, and
// make deps installs the programs where it can.
package deps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

// Need is a program, or a set of files, that some tests need.
type Need struct {
	Name     string // of the tests that are left out without it
	Variable string // with the address of a server to use instead, if there can be one

	names    []string // of the program, or patterns of its path
	packages []string // of Debian and Ubuntu
	npm      string   // folder whose npm packages are needed
	python   string   // folder of a Python package whose virtual environment is needed
	all      bool     // make test-all alone needs it
}

// The needs of all tests.
var (
	MySQL = &Need{
		Name: "MySQL", Variable: "IDWORKER_TEST_MYSQL",
		names:    []string{"mariadbd", "mysqld", "/usr/sbin/mariadbd", "/usr/sbin/mysqld", "/usr/local/sbin/mysqld"},
		packages: []string{"mariadb-server-core", "mariadb-client-core"}, // no service that starts a server
	}
	Postgres = &Need{
		Name: "PostgreSQL", Variable: "IDWORKER_TEST_POSTGRES",
		names:    []string{"postgres", "/usr/lib/postgresql/*/bin/postgres", "/usr/local/pgsql/bin/postgres"},
		packages: []string{"postgresql"},
	}
	Browser = &Need{
		Name: "the status page in a browser", all: true,
		names: []string{
			"chromium", "chromium-browser", "google-chrome",
			"/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
		},
		packages: []string{"chromium"},
	}
	Axe = &Need{Name: "the status page by axe-core", npm: "testing/browser", all: true}

	Noble = &Need{Name: "opaque IDs by @noble/ciphers", npm: "testing/noble", all: true}

	TypeScript = &Need{Name: "the TypeScript client", npm: "messages/clients/typescript", all: true}
	Python     = &Need{Name: "the Python client", python: "messages/clients/python", packages: []string{"python3-venv"}, all: true}

	JDK   = &Need{Name: "the Java client", names: []string{"javac"}, packages: []string{"default-jdk-headless"}, all: true}
	Maven = &Need{Name: "the Java client", names: []string{"mvn"}, packages: []string{"maven"}, all: true}
)

// All are all of them.
var All = []*Need{MySQL, Postgres, Browser, Axe, Noble, TypeScript, Python, JDK, Maven}

// ErrMissing means that a program is not on this machine.
var ErrMissing = errors.New("not found")

// foundVariable is the environment variable in which make passes [Found], so
// that go test keeps no result from before something was installed. npm and
// Python packages are in the repository, where go test itself notices which files
// tests look for.
const foundVariable = "IDWORKER_FOUND"

// Found lists the programs found on this machine, without npm and Python
// packages, on a single line.
func Found() string {
	var paths []string
	for _, n := range All {
		if path, err := n.Find(); err == nil && n.npm+n.python == "" {
			paths = append(paths, path)
		}
	}
	return strings.Join(paths, " ")
}

// Find returns the path of the program, the newest of several, or of the folder
// with the npm packages or the virtual environment. The error is ErrMissing.
func (n *Need) Find() (string, error) {
	switch {
	case n.npm != "":
		return n.findPackages()
	case n.python != "":
		return n.findEnvironment()
	}
	_ = os.Getenv(foundVariable) // go test notes who read it
	for _, name := range n.names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		found, _ := filepath.Glob(name)
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrMissing, n.names[0])
}

// findPackages needs node beside the packages.
func (n *Need) findPackages() (string, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("%w: node", ErrMissing)
	}
	modules := filepath.Join(repository(), n.npm, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, ".package-lock.json")); err != nil { // npm writes it last
		return "", fmt.Errorf("%w: %s", ErrMissing, filepath.Join(n.npm, "node_modules"))
	}
	return modules, nil
}

// findEnvironment needs the file that [Need.Install] writes last.
func (n *Need) findEnvironment() (string, error) {
	environment := filepath.Join(repository(), n.python, ".venv")
	if _, err := os.Stat(filepath.Join(environment, installed)); err != nil {
		return "", fmt.Errorf("%w: %s", ErrMissing, filepath.Join(n.python, ".venv"))
	}
	return environment, nil
}

// installed is the file of a virtual environment that is complete.
const installed = "installed"

// Require returns the path of the program, or skips the test. In CI, where make
// deps has run before make test-all, the test fails.
func (n *Need) Require(t testing.TB) string {
	t.Helper()
	path, err := n.Find()
	if err != nil {
		n.Missing(t, err)
	}
	return path
}

// The version that testing/compat upgrades from, and its commit: the latest that
// was released.
const (
	OldVersion = "0.2.0"
	OldCommit  = "9a2ec48d0713b9aba8566207ba26a03a9b4a6a84"
)

// NoHistory describes the tests that are left out without the repository's
// history, as in a shallow clone or an unpacked archive.
const NoHistory = "left out: versions mixed with " + OldVersion + " (its commit is not in this repository's history)"

// History returns an error if the history lacks the old version.
func History() error {
	out, err := exec.Command("git", "-C", repository(), "cat-file", "-e", OldCommit+"^{commit}").CombinedOutput()
	if err != nil {
		return fmt.Errorf("git: %w %s", err, out)
	}
	return nil
}

// Missing ends a test whose program is missing, or does not work. A program
// that is there and does not work is a failure.
func (n *Need) Missing(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, ErrMissing) || tier.IsAll() && os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", n.Name, err)
	}
	t.Skipf("left out: %s (%v)", n.Name, err)
}

// LeftOut describes, in a line, the tests that the tier leaves out for want of
// the program. It's empty if there are none.
func (n *Need) LeftOut() string {
	if n.all && !tier.IsAll() || n.Variable != "" && os.Getenv(n.Variable) != "" {
		return ""
	}
	if _, err := n.Find(); err != nil {
		if n.Variable != "" && tier.IsAll() && docker() { // a container took its place
			return fmt.Sprintf("left out: %s that is killed (%v; make deps installs it)", n.Name, err)
		}
		return fmt.Sprintf("left out: %s (%v; make deps installs it)", n.Name, err)
	}
	return ""
}

// docker reports whether a Docker engine answers.
func docker() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "docker", "info").Run() == nil
}

// Install installs missing programs: npm and Python packages, and as root
// Debian's packages.
func (n *Need) Install() error {
	if _, err := n.Find(); err == nil {
		return nil
	}
	switch {
	case n.npm != "":
		return run(filepath.Join(repository(), n.npm), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	case n.python != "":
		return n.installEnvironment()
	}
	return n.installPackages()
}

// installEnvironment makes a virtual environment, and installs the Python
// package in it with all that its tests need.
func (n *Need) installEnvironment() error {
	folder := filepath.Join(repository(), n.python)
	environment := filepath.Join(folder, ".venv")
	// Debian's Python comes without the module venv.
	if run(folder, "python3", "-m", "venv", environment) != nil {
		if err := n.installPackages(); err != nil {
			return err
		}
		if err := run(folder, "python3", "-m", "venv", environment); err != nil {
			return err
		}
	}
	if err := run(folder, filepath.Join(environment, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "-e", ".[test]"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(environment, installed), nil, 0o600)
}

// installPackages installs Debian's packages.
func (n *Need) installPackages() error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("install %s: not root on Debian or Ubuntu", n.packages[0])
	}
	install := append([]string{"-q", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"}, n.packages...)
	if run("", "apt-get", install...) == nil {
		return nil
	}
	// A fresh machine has no lists of packages yet.
	if err := run("", "apt-get", "-q", "update"); err != nil {
		return err
	}
	return run("", "apt-get", install...)
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out[max(0, len(out)-2000):])
	}
	return nil
}

// repository is the folder of the module.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// versionIn is the number among the elements of a path, as in
// …/15/bin/postgres.
func versionIn(path string) int {
	for element := range strings.SplitSeq(path, "/") {
		if n, err := strconv.Atoi(element); err == nil {
			return n
		}
	}
	return 0
}
