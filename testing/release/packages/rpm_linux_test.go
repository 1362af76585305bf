package packages

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// rpmArch is the name of a processor in the name of an rpm.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// TestRPM: the rpm holds the files of the deb, installs into an empty root, is
// upgraded and removed there, and its unit is sound.
func TestRPM(t *testing.T) {
	tier.Release(t)
	tools(t, map[string]string{"rpm": "rpm", "dpkg-deb": "dpkg", "systemd-analyze": "systemd"})
	rpm, deb, unpacked := one(t, "idworker-*."+rpmArch[runtime.GOARCH]+".rpm"), debOf(t), t.TempDir()
	rpm, err := filepath.Abs(rpm)
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, "dpkg-deb", "-x", deb, unpacked)

	// The differences are where the distributions keep such files.
	want := make(map[string]bool)
	for name := range filesIn(t, unpacked) {
		name = strings.Replace(name, "/usr/share/zsh/vendor-completions/", "/usr/share/zsh/site-functions/", 1)
		name = strings.Replace(name, "/usr/share/doc/idworker/copyright", "/usr/share/licenses/idworker/LICENSE", 1)
		want[name] = true
	}
	got := make(map[string]bool)
	for name := range strings.Lines(mustRun(t, "rpm", "-qpl", rpm)) {
		got[strings.TrimSpace(name)] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("the rpm holds %v, expected %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	settings := strings.Fields(mustRun(t, "rpm", "-qpc", rpm))
	slices.Sort(settings)
	if want := []string{"/etc/idworker/all.env", "/etc/idworker/loader.env", "/etc/idworker/worker.env"}; !slices.Equal(settings, want) {
		t.Errorf("configuration %v, want %v", settings, want)
	}

	// A root without a shell or systemd: scripts are tried below, by hand.
	root := t.TempDir()
	install := []string{"--root", root, "--nodeps", "--noscripts", "--ignorearch"}
	mustRun(t, "rpm", append(install, "-i", rpm)...)
	installed := filesIn(t, root)
	for name := range want {
		if !installed[name] {
			t.Errorf("installed without %s", name)
		}
	}
	// The unit refers to systemd's own.
	mustRun(t, "sh", "-c", "cp -a /usr/lib/systemd/system/*.target "+filepath.Join(root, "usr/lib/systemd/system"))
	if out := mustRun(t, "systemd-analyze", "verify", "--man=no", "--root", root, "idworker@.service"); out != "" {
		t.Errorf("systemd-analyze verify prints %s", out)
	}
	t.Log(mustRun(t, filepath.Join(root, "usr/bin/idworker"), "version"))
	scripts(t, rpm)

	changed := filepath.Join(root, "etc/idworker/all.env")
	if err := os.WriteFile(changed, []byte("IDWORKER_LISTEN=127.0.0.1:5222\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "rpm", append(install, "-U", "--force", rpm)...)
	if text, err := os.ReadFile(changed); err != nil || !strings.Contains(string(text), "5222") {
		t.Errorf("after an upgrade, settings are %q, %v", text, err)
	}
	mustRun(t, "rpm", "--root", root, "--nodeps", "--noscripts", "-e", "idworker")
	for name := range filesIn(t, root) {
		if want[name] || strings.Contains(name, "idworker") && name != "/etc/idworker/all.env.rpmsave" {
			t.Errorf("left behind: %s", name)
		}
	}
}

// scripts checks the scripts' syntax, and runs them where systemd does not run:
// they succeed there, as in the build of an image.
func scripts(t *testing.T, rpm string) {
	t.Helper()
	for tag, arg := range map[string]string{"POSTIN": "1", "PREUN": "1", "POSTUN": "1"} {
		text := mustRun(t, "rpm", "-qp", "--queryformat", "%{"+tag+"}", rpm)
		if !strings.HasPrefix(text, "#!/bin/sh") {
			t.Errorf("%s is %q", tag, text)
		}
		script := filepath.Join(t.TempDir(), tag)
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		mustRun(t, "sh", "-n", script)
		if _, err := os.Stat("/run/systemd/system"); err != nil {
			mustRun(t, "sh", script, arg)
		}
	}
}

// filesIn lists the files in a folder, by paths that start at it.
func filesIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	list := make(map[string]bool)
	for name := range strings.Lines(mustRun(t, "find", folder, "-type", "f")) {
		list[strings.TrimPrefix(strings.TrimSpace(name), folder)] = true
	}
	return list
}
