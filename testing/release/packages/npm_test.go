package packages

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/clients"
	"github.com/idworker/idworker/testing/tier"
)

// TestNPM: a release has the TypeScript client as npm publishes it. A project
// that installs it can import or require all of it, with types.
func TestNPM(t *testing.T) {
	tier.Release(t)
	project := nodeProject(t.TempDir())
	files := project.install(t, one(t, "idworker-client-*.tgz"))
	allowed := regexp.MustCompile(`^(package\.json|README\.md|LICENSE|src/\w+\.ts|dist/src/\w+\.(js|js\.map|d\.ts))$`)
	for _, name := range files {
		if !allowed.MatchString(name) {
			t.Errorf("the package has %s", name)
		}
	}
	for _, name := range []string{"README.md", "LICENSE"} {
		if !slices.Contains(files, name) {
			t.Errorf("the package lacks %s", name)
		}
	}

	text, err := os.ReadFile(filepath.Join(project.client(), "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Exports          map[string]string
		Dependencies     map[string]string
		PeerDependencies map[string]string
		Peers            map[string]struct{ Optional bool } `json:"peerDependenciesMeta"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Dependencies) > 0 {
		t.Errorf("it needs %v, want peers alone", manifest.Dependencies)
	}
	var modules []string
	for name, file := range manifest.Exports {
		file = path.Clean(file)
		types := strings.TrimSuffix(file, ".js") + ".d.ts"
		if !slices.Contains(files, file) || file != "package.json" && !slices.Contains(files, types) {
			t.Errorf("the export %s: %s or its types are missing", name, file)
		}
		if file != "package.json" {
			modules = append(modules, path.Join("@idworker/client", name))
		}
	}
	if len(modules) < 5 {
		t.Errorf("it exports %q, want the client and four sub-paths", modules)
	}

	// These need no package but the one that is not optional.
	for name := range manifest.PeerDependencies {
		if !manifest.Peers[name].Optional {
			project.link(t, name)
		}
	}
	project.use(t, "@idworker/client", "@idworker/client/number")
	for name := range manifest.PeerDependencies {
		if manifest.Peers[name].Optional {
			project.link(t, name)
		}
	}
	project.use(t, modules...)
}

// nodeProject is the folder of a project.
type nodeProject string

func (p nodeProject) client() string { return p.module("@idworker/client") }

func (p nodeProject) module(name string) string {
	return filepath.Join(string(p), "node_modules", filepath.FromSlash(name))
}

// install installs the client, and lists its files.
func (p nodeProject) install(t *testing.T, tarball string) (files []string) {
	t.Helper()
	tarball, err := filepath.Abs(tarball)
	if err == nil {
		err = os.MkdirAll(p.client(), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.run(t, "tar", "-xzf", tarball, "-C", p.client(), "--strip-components=1")
	err = fs.WalkDir(os.DirFS(p.client()), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// link lets a project use a package that the client's tests have installed, so
// that it needs no network.
func (p nodeProject) link(t *testing.T, name string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(p.module(name)), 0o755)
	if err == nil {
		err = os.Symlink(nodeProject(clients.TypeScript).module(name), p.module(name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// use imports modules in a program that is compiled, and runs it.
func (p nodeProject) use(t *testing.T, modules ...string) {
	t.Helper()
	slices.Sort(modules)
	program := `import { Idworker } from "@idworker/client"
const next: (tag: string) => Promise<bigint> = Idworker.prototype.next
if (typeof next !== "function") throw new Error("no client")
`
	for i, module := range modules {
		program += fmt.Sprintf("import * as m%d from %q\nif (Object.keys(m%d).length === 0) throw new Error(%q)\n", i, module, i, module+" is empty")
	}
	tsc := filepath.Join(clients.TypeScript, "node_modules", ".bin", "tsc")
	for packageType, module := range map[string]string{"module": "nodenext", "commonjs": "commonjs"} {
		for name, text := range map[string]string{"package.json": fmt.Sprintf(`{"type":%q}`, packageType), "use.ts": program} {
			if err := os.WriteFile(filepath.Join(string(p), name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p.run(t, tsc, "--strict", "--target", "es2023", "--module", module, "--types", "", "--skipLibCheck", "use.ts")
		p.run(t, "node", "use.js")
		t.Logf("a project of the type %s uses %q", packageType, modules)
	}
}

// run runs a program, and fails the test if it fails.
func (p nodeProject) run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = string(p)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
