package packages

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// machine is a clean Debian, booted with systemd in namespaces of its own.
type machine struct {
	*testing.T
	root string
	init string // the process ID of its systemd, seen from outside
}

// tools installs programs on a Debian or Ubuntu, unless they are there.
func tools(t *testing.T, packageOf map[string]string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("left out: needs root")
	}
	for program, pack := range packageOf {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		install := exec.CommandContext(t.Context(), "apt-get", "install", "-y", "--no-install-recommends", pack)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("left out: needs %s, and apt-get install %s failed: %v\n%s", program, pack, err, out)
		}
	}
}

// boot boots a clean Debian, which lives as long as the test. The root is kept
// in the user's cache, and copied.
func boot(t *testing.T) *machine {
	t.Helper()
	tools(t, map[string]string{"debootstrap": "debootstrap", "systemd-nspawn": "systemd-container", "nsenter": "util-linux"})
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	const suite = "trixie"
	kept := filepath.Join(cache, "idworker", "debian-"+suite)
	if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
		made := kept + ".new"
		mustRun(t, "rm", "-rf", made)
		mustRun(t, "mkdir", "-p", filepath.Dir(made))
		mustRun(t, "debootstrap", "--variant=minbase", "--include=systemd-sysv,dbus", suite, made)
		if err := os.Rename(made, kept); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{T: t, root: filepath.Join(t.TempDir(), "root")}
	mustRun(t, "cp", "-a", kept, m.root)
	m.start()
	return m
}

// start boots the machine. It has a network of its own with a loopback device.
func (m *machine) start() {
	m.Helper()
	// If the test is killed, SIGTERM shuts the machine down: with SIGKILL, only
	// systemd-nspawn would end.
	args := []string{"--pdeathsig", "TERM", "systemd-nspawn", "--directory", m.root, "--machine", fmt.Sprintf("idworker-%d", os.Getpid()), "--register=no", "--private-network", "--boot"}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		// No systemd outside could make a unit.
		args = append(args, "--keep-unit")
	}
	nspawn, err := process.Program{
		Binary: "setpriv", Env: []string{"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "PATH=" + os.Getenv("PATH")},
	}.Launch(args...)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		nspawn.Signal(syscall.SIGTERM) // a shutdown in order
		natstest.Eventually(m, "the machine's end", nspawn.HasEnded)
	})
	outside := nspawn.Cmd.Process.Pid
	natstest.Eventually(m, "the machine's systemd", func() bool {
		if nspawn.HasEnded() {
			m.Fatalf("systemd-nspawn ended:\n%s%s", nspawn.Stdout.String(), nspawn.Stderr.String())
		}
		if m.init = initOf(outside); m.init == "" {
			return false
		}
		state, _ := m.try("systemctl is-system-running")
		return state == "running" || state == "degraded"
	})
}

// initOf returns the init of a systemd-nspawn, or nothing. While that starts, a
// child of it is still in this system's namespaces: a command for it would
// install the package here.
func initOf(nspawn int) string {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", nspawn, nspawn))
	ours, _ := os.Readlink("/proc/self/ns/pid")
	for _, child := range strings.Fields(string(children)) {
		name, _ := os.ReadFile("/proc/" + child + "/comm")
		space, _ := os.Readlink("/proc/" + child + "/ns/pid")
		if string(name) == "systemd\n" && space != "" && space != ours {
			return child
		}
	}
	return ""
}

// try runs a shell command in the machine.
func (m *machine) try(command string) (stdout string, err error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(m.Context(), "nsenter", "--target", m.init, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd=/",
		"/bin/sh", "-c", command)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"}
	cmd.Stdout, cmd.Stderr = &out, &said
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", command, err, out.String(), said.String())
	}
	return strings.TrimSpace(out.String()), err
}

// run runs a shell command in the machine, which must succeed.
func (m *machine) run(command string) (stdout string) {
	m.Helper()
	out, err := m.try(command)
	if err != nil {
		m.Fatal(err)
	}
	return out
}

// put copies a file into the machine.
func (m *machine) put(from, to string) {
	m.Helper()
	mustRun(m.T, "cp", from, filepath.Join(m.root, to))
}

// property returns a property of a unit.
func (m *machine) property(unit, name string) string {
	m.Helper()
	return m.run("systemctl show --value --property " + name + " " + unit)
}

// theirs are files that dpkg and systemd write for themselves.
var theirs = regexp.MustCompile(`^/(?:` + strings.Join([]string{
	`var/lib/dpkg/(?:status|status-old|lock|lock-frontend|triggers/.*|info|info/format|updates)`,
	`var/log/(?:dpkg\.log|journal|journal/.*|wtmp\.db|wtmp|btmp|lastlog)`,
	`var/lib/systemd/(?:random-seed|timers/.*|catalog/database|credential\.secret|linger)`,
	`var/tmp/systemd-private-.*`,
	`(?:etc|var)/\.updated`,
}, "|") + `)$`)

// files describes the files and folders of the machine's disk, apart from
// those of dpkg and systemd: kind, rights, and checksum.
func (m *machine) files() map[string]string {
	m.Helper()
	list := make(map[string]string)
	err := filepath.WalkDir(m.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, m.root)
		if theirs.MatchString(name) {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		list[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			list[name] += fmt.Sprintf(" %x", sha256.Sum256(content))
		}
		return nil
	})
	if err != nil {
		m.Fatal(err)
	}
	return list
}

// mustRun runs a program to its end, and returns its output.
func mustRun(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// debOf returns the release's package for this machine.
func debOf(t *testing.T) string {
	t.Helper()
	return one(t, "idworker_*_"+runtime.GOARCH+".deb")
}
