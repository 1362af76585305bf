package packages

import (
	"bufio"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// dist is the folder in which make release puts its results.
const dist = "../../../dist"

// one returns the only file of the release that matches a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in dist: %v, %v; expected one; run: make release SNAPSHOT=1", pattern, found, err)
	}
	return found[0]
}

// TestComplete: a release has everything for each system, with right checksums.
func TestComplete(t *testing.T) {
	tier.Release(t)
	listed := make(map[string]bool)
	sums, err := os.Open(filepath.Join(dist, "checksums.txt"))
	if err != nil {
		t.Fatalf("%v; run: make release SNAPSHOT=1", err)
	}
	defer func() { _ = sums.Close() }()
	for lines := bufio.NewScanner(sums); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		data, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: checksum %x, listed %s", name, got, sum)
		}
		listed[name] = true
	}
	for _, pattern := range []string{
		"idworker_*_linux_amd64.tar.gz", "idworker_*_linux_arm64.tar.gz", "idworker_*_darwin_amd64.tar.gz", "idworker_*_darwin_arm64.tar.gz",
		"idworker_*_windows_amd64.zip", "idworker_*_windows_arm64.zip",
		"idworker_*_linux_amd64.cdx.json", "idworker_*_linux_arm64.cdx.json", "idworker_*_darwin_amd64.cdx.json", "idworker_*_darwin_arm64.cdx.json",
		"idworker_*_windows_amd64.cdx.json", "idworker_*_windows_arm64.cdx.json",
		"idworker_*_amd64.deb", "idworker_*_arm64.deb", "idworker-*.x86_64.rpm", "idworker-*.aarch64.rpm",
		"idworker_*_image.tar", "idworker-[0-9]*.tgz", "idworker_*_deploy.tar.gz",
		"idworker_client-*-py3-none-any.whl", "idworker_client-[0-9]*.tar.gz",
	} {
		if name := filepath.Base(one(t, pattern)); !listed[name] {
			t.Errorf("%s has no checksum", name)
		}
	}
	if notes, err := os.ReadFile(filepath.Join(dist, "notes.md")); err != nil || len(notes) == 0 {
		t.Errorf("release notes: %d bytes, %v", len(notes), err)
	}
}

// TestDeploy: the archive for operators has what they install beside the binary.
func TestDeploy(t *testing.T) {
	tier.Release(t)
	list, err := exec.CommandContext(t.Context(), "tar", "-tzf", one(t, "idworker_*_deploy.tar.gz")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"docs/deploy/chart/values.yaml", "docs/deploy/nats-chart/values.yaml", "docs/deploy/compose.yaml", "docs/deploy/monitoring/prometheus.yml",
		"docs/deploy/systemd/idworker@.service",
		"docs/prometheus-rules.yml", "docs/grafana.json", "nats.conf", "cluster.conf", "LICENSE",
	} {
		if !strings.Contains("\n"+string(list), "\n"+file+"\n") {
			t.Errorf("%s is missing", file)
		}
	}
}

// TestBillOfMaterials: each bill names exactly the modules in its binary.
func TestBillOfMaterials(t *testing.T) {
	tier.Release(t)
	binaries, err := filepath.Glob(filepath.Join(dist, "idworker_*_*", "idworker*"))
	if err != nil || len(binaries) != 6 {
		t.Fatalf("binaries: %v, %v, expected 6", binaries, err)
	}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(filepath.Base(filepath.Dir(binary)), "_") // idworker_linux_amd64_v1
		data, err := os.ReadFile(one(t, "idworker_*_"+parts[1]+"_"+parts[2]+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var bill struct {
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal(data, &bill); err != nil {
			t.Fatal(err)
		}
		billed := make(map[string]string)
		for _, c := range bill.Components {
			billed[c.Name] = c.Version
		}
		delete(billed, "std")
		for _, m := range info.Deps {
			if billed[m.Path] != m.Version {
				t.Errorf("%s contains %s %s, its bill says %q", binary, m.Path, m.Version, billed[m.Path])
			}
			delete(billed, m.Path)
		}
		if len(billed) > 0 || len(info.Deps) < 10 {
			t.Errorf("%s has %d modules; its bill also names %v", binary, len(info.Deps), billed)
		}
	}
}

// TestBinary: the binary for this machine is static, and names its commit.
func TestBinary(t *testing.T) {
	tier.Release(t)
	if runtime.GOOS != "linux" {
		t.Skip("left out: needs Linux")
	}
	binary := one(t, "idworker_linux_"+runtime.GOARCH+"_*/idworker")
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("linked to %v, %v", libraries, err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if want := regexp.MustCompile(`^\d+\.\d+\.\d+ \(commit [0-9a-f]{7}, \d{4}-\d\d-\d\d\)\n$`); err != nil || !want.Match(out) {
		t.Errorf("version prints %q, %v", out, err)
	}
}
