package packages

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

// debian is the release whose root debootstrap makes.
const debian = "trixie"

// mayHang is far above what each step takes, so only a hang reaches it.
const mayHang = 3 * time.Minute

// unpacked returns a Debian root that has never booted. It is kept, as it takes
// minutes.
func unpacked(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "idworker-release", "debian-"+debian)
	if _, err := os.Stat(root); err == nil {
		return root
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	part, err := os.MkdirTemp(filepath.Dir(root), "part")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(part)
	if err := os.Chmod(part, 0o755); err != nil {
		t.Fatal(err)
	}
	local(t, "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", debian, part)
	if err := os.Rename(part, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// local runs a program on this machine.
func local(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(mayHang); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// machine is a booted Debian, with a network of its own that leads nowhere.
type machine struct {
	t      *testing.T
	root   string
	leader string // the process ID of its init
}

func boot(t *testing.T) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("left out: needs root, for systemd-nspawn")
	}
	for _, program := range []string{"debootstrap", "systemd-nspawn", "nsenter", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("left out: needs %s (apt-get install debootstrap systemd-container)", program)
		}
	}
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	local(t, "cp", "-a", "--reflink=auto", unpacked(t), m.root)

	cmd := exec.Command("systemd-nspawn", "--directory", m.root, "--machine", "idworker-"+strconv.Itoa(os.Getpid()),
		"--register=no", "--keep-unit", "--private-network", "--boot")
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The machine is told to power off when this thread ends, which is with
		// the test at the latest.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its end was asked for
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // powers off
		select {
		case <-ended:
		case <-time.After(mayHang):
			t.Error("the machine does not power off")
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("console:\n%s", console.String())
		}
	})
	eventually(t, "a running systemd", func() bool {
		select {
		case <-ended:
			t.Fatal("the machine ended")
		default:
		}
		m.leader = initOf(cmd.Process.Pid)
		if m.leader == "" {
			return false
		}
		state, _ := m.try("systemctl is-system-running")
		return state == "running" || state == "degraded"
	})
	if failed := m.run("systemctl --failed --plain --no-legend"); failed != "" {
		t.Logf("failed without idworker:\n%s", failed)
	}
	return m
}

// initOf returns the init of a systemd-nspawn, once it is in its namespaces.
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

// command is a shell command in the machine.
func (m *machine) command(script string) *exec.Cmd {
	return exec.Command("nsenter", "--target", m.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd=/",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "bash", "-c", script)
}

func (m *machine) try(script string) (string, error) {
	out, err := m.command(script).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		journal, _ := m.try("journalctl --no-pager --lines 40 --output cat")
		m.t.Fatalf("%s: %v\n%s\njournal:\n%s", script, err, out, journal)
	}
	return out
}

// write creates a file in the machine.
func (m *machine) write(path, content string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// changing are files which dpkg and systemd write for themselves.
var changing = regexp.MustCompile(`^/(?:` + strings.Join([]string{
	`var/lib/dpkg/(?:status|status-old|lock|lock-frontend|triggers/.*|info/format)`,
	`var/log/(?:dpkg\.log|journal(?:/.*)?|wtmp|btmp|lastlog)`,
	`var/lib/systemd/(?:random-seed|timers/.*|catalog/database|credential\.secret|timesync/clock)`,
	`var/lib/apt/(?:daily_lock|extended_states|periodic)`,
	`var/lib/private`, // made for DynamicUser
	`etc/(?:machine-id|resolv\.conf|\.updated)|var/\.updated`,
}, "|") + `)$`)

// data is what a removal leaves to the administrator.
var data = regexp.MustCompile(`^/var/lib/(?:idworker|private/idworker(?:/.*)?)$`)

// files describes each file on the machine's disk, but for those which dpkg and
// systemd keep.
func (m *machine) files() map[string]string {
	m.t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(m.root, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // a temporary file
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, m.root)
		if changing.MatchString(name) {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil // a temporary file
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil // a temporary file
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(content))
		}
		found[name] = text
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

// pid returns the process ID of a unit, within the machine.
func (m *machine) pid(unit string) string {
	m.t.Helper()
	pid := m.run("systemctl show --property MainPID --value " + unit)
	if pid == "0" || pid == "" {
		m.t.Fatalf("%s does not run", unit)
	}
	return pid
}

// answered returns how many requests the processes at some HTTP ports have
// answered.
func (m *machine) answered(ports ...string) float64 {
	m.t.Helper()
	sum := 0.0
	for _, port := range ports {
		page, _ := m.try(`exec 3<>/dev/tcp/127.0.0.1/` + port + ` && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`)
		for _, line := range regexp.MustCompile(`(?m)^idworker_requests_total\{[^}]*code="ok"[^}]*\} (\S+)`).FindAllStringSubmatch(page, -1) {
			n, err := strconv.ParseFloat(line[1], 64)
			if err != nil {
				m.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestDebian: the package goes onto a clean Debian, serves, is upgraded under
// load without a failed request, and goes again.
func TestDebian(t *testing.T) {
	tier.Release(t)
	deb := one(t, "idworker_*_"+runtime.GOARCH+".deb")
	m := boot(t)
	before := m.files()

	m.copy(deb, "/opt/idworker.deb")
	m.run("dpkg --install /opt/idworker.deb")
	m.serves()
	m.hardened()
	m.run("systemctl stop idworker@all")
	m.upgrades(deb)

	m.run("dpkg --purge idworker")
	if left, _ := m.try("pgrep --list-full idworker || grep -l '^idworker' /proc/[0-9]*/comm"); left != "" {
		t.Errorf("still runs after the removal: %s", left)
	}
	if units := m.run("systemctl list-units --all --plain --no-legend 'idworker*'"); units != "" {
		t.Errorf("units after the removal:\n%s", units)
	}
	m.run("systemctl stop nats; rm -r /opt/*")
	after := m.files()
	for name, was := range before {
		if is, ok := after[name]; !ok {
			t.Errorf("removed with the package: %s", name)
		} else if is != was {
			t.Errorf("changed: %s: %s, before %s", name, is, was)
		}
	}
	kept := 0
	for name := range after {
		if data.MatchString(name) {
			kept++
		} else if before[name] == "" {
			t.Errorf("left behind: %s", name)
		}
	}
	if kept < 5 {
		t.Errorf("only %d files of data are kept", kept)
	}
	t.Logf("%d files before and after, and %d of data", len(before), kept)
}

func (m *machine) copy(from, to string) {
	m.t.Helper()
	local(m.t, "cp", from, filepath.Join(m.root, to))
}

// serves checks the first ID.
func (m *machine) serves() {
	m.t.Helper()
	m.run("systemctl start idworker@all")
	m.run("idworker tag create order")
	if id := m.run("idworker get order"); !regexp.MustCompile(`^\d+$`).MatchString(id) {
		m.t.Errorf("the first ID is %q", id)
	}
}

// hardened checks the rights of the process.
func (m *machine) hardened() {
	m.t.Helper()
	pid := m.pid("idworker@all")
	uid := m.run("stat --format %u /proc/" + pid)
	if n, err := strconv.Atoi(uid); err != nil || n < 61184 || n > 65519 {
		m.t.Errorf("runs as user %s, not as one of systemd's dynamic users", uid)
	}
	// Root's own rights do not open a file system that is read-only.
	if out, err := m.try("nsenter --target " + pid + " --mount touch /etc/idworker/all.env"); err == nil {
		m.t.Errorf("the process can write to /etc/idworker: %s", out)
	}
	if out := m.run("systemd-analyze verify --man=no idworker@all.service"); out != "" {
		m.t.Errorf("systemd-analyze verify: %s", out)
	}
	lines := strings.Split(m.run("systemd-analyze security --no-pager idworker@all.service"), "\n")
	m.t.Log(lines[len(lines)-1])
}

// upgrades installs the same package as a later version, while two processes
// answer callers.
func (m *machine) upgrades(deb string) {
	m.t.Helper()
	content := filepath.Join(m.t.TempDir(), "deb")
	local(m.t, "dpkg-deb", "--raw-extract", deb, content)
	control := filepath.Join(content, "DEBIAN", "control")
	text, err := os.ReadFile(control)
	if err != nil {
		m.t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAll(text, []byte("${0}+later"))
	if err := os.WriteFile(control, text, 0o644); err != nil {
		m.t.Fatal(err)
	}
	local(m.t, "dpkg-deb", "--build", "--root-owner-group", "-Znone", content, filepath.Join(m.root, "opt/later.deb"))

	server := filepath.Join(m.root, "opt/nats-server")
	build := exec.CommandContext(m.t.Context(), "go", "build", "-o", server, "github.com/nats-io/nats-server/v2")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("nats-server: %v\n%s", err, out)
	}
	m.write("/opt/nats.conf", `
listen: "127.0.0.1:4222"
jetstream { store_dir: "/opt/nats", sync_interval: always }
authorization { user: ids, password: "a-secret" }
`)
	m.run("systemd-run --unit nats /opt/nats-server -c /opt/nats.conf")
	eventually(m.t, "a NATS server", func() bool { _, err := m.try("exec 3<>/dev/tcp/127.0.0.1/4222"); return err == nil })

	m.write("/etc/credstore/idworker.password", "a-secret")
	ports := map[string]string{"a": "9091", "b": "9092"}
	units := make(map[string]string) // process IDs
	for name, port := range ports {
		m.write("/etc/idworker/"+name+".env", "NATS_URL=nats://127.0.0.1:4222\nIDWORKER_HTTP=127.0.0.1:"+port+
			"\nIDWORKER_USER=ids\nIDWORKER_PASSWORD_FILE=/run/credentials/idworker@"+name+".service/password\n")
		m.run("systemctl enable --now idworker@" + name)
		units[name] = m.pid("idworker@" + name)
	}
	caller := "NATS_URL=nats://127.0.0.1:4222 IDWORKER_USER=ids IDWORKER_PASSWORD_FILE=/etc/credstore/idworker.password exec idworker "
	m.run(caller + "tag create order")

	bench := m.command(caller + "bench order --duration 1h --callers 8 --rate 1000 --json")
	var report, complaints bytes.Buffer
	bench.Stdout, bench.Stderr = &report, &complaints
	if err := bench.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = bench.Process.Kill() })
	loaded := func() {
		m.t.Helper()
		for _, port := range ports {
			first := m.answered(port)
			eventually(m.t, "500 requests at port "+port, func() bool { return m.answered(port) > first+500 })
		}
	}
	loaded()
	m.t.Logf("dpkg: %s", m.run("dpkg --install /opt/later.deb"))
	loaded()
	m.run("kill -INT $(grep -lz '^bench$' /proc/[0-9]*/cmdline | cut -d / -f 3 | head -n 1)")
	_ = bench.Wait() // exit status 130

	for name, was := range units {
		if m.pid("idworker@"+name) == was {
			m.t.Errorf("idworker@%s still runs the earlier version", name)
		}
	}
	if version := m.run("dpkg-query --show --showformat '${Version}' idworker"); !strings.HasSuffix(version, "+later") {
		m.t.Errorf("version %s is installed", version)
	}
	var result struct {
		Requests, Failed, IDs int64
		Failures              json.RawMessage
		Broken                struct {
			Duplicates int64
			NoReplies  int64 `json:"no_replies"`
			Findings   []string
		}
	}
	if err := json.Unmarshal(report.Bytes(), &result); err != nil {
		m.t.Fatalf("%v in %s%s", err, report.String(), complaints.String())
	}
	if result.Failed != 0 || result.Broken.Duplicates != 0 || result.Broken.NoReplies != 0 || result.IDs != result.Requests || result.Requests < 1000 {
		m.t.Errorf("during the upgrade: %+v %s", result, result.Failures)
	}
	m.t.Logf("upgraded under load: %d requests, %d failed, %d IDs, %d duplicates", result.Requests, result.Failed, result.IDs, result.Broken.Duplicates)
}
