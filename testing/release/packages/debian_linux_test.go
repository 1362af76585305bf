package packages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// processes are the units that run while the package is upgraded.
var processes = []string{"a", "b", "loader"}

// TestDebian: on a clean Debian, the package gives the first ID, is upgraded
// without a failed request, and leaves nothing but data.
func TestDebian(t *testing.T) {
	tier.Release(t)
	m := boot(t)
	m.put(debOf(t), "root/a.deb")
	natsServer, err := process.Build(t.TempDir(), "nats-server", process.NATSServer)
	if err != nil {
		t.Fatal(err)
	}
	m.put(natsServer, "root/nats-server")
	m.run(`cd /root && dpkg-deb -R a.deb b && sed -i 's/^Version: .*/&+1/' b/DEBIAN/control && dpkg-deb -b -Znone b b.deb && rm -r b`)
	m.run("mkdir -p -m 0700 /etc/credstore")
	before := m.files()

	m.run("dpkg -i /root/a.deb")
	m.run("systemctl enable idworker@all")
	firstID(m)
	confined(m)
	m.run("systemctl stop idworker@all")
	upgrade(m)

	m.run("dpkg -r idworker")
	if running := m.run("systemctl list-units --plain --no-legend --state=active 'idworker@*'"); running != "" {
		t.Errorf("after the removal run:\n%s", running)
	}
	m.run("dpkg -P idworker")
	removed(m, before)
}

// removed: the disk is as before, but for the data.
func removed(m *machine, before map[string]string) {
	m.Helper()
	after := m.files()
	for name, was := range before {
		if after[name] != was {
			m.Errorf("changed or gone: %s: %q, before %q", name, after[name], was)
		}
		delete(after, name)
	}
	left := slices.Sorted(maps.Keys(after))
	data := 0
	for _, name := range left {
		switch {
		// /var/lib/idworker has links to these.
		case strings.HasPrefix(name, "/var/lib/private/idworker/"):
			data++
		case name == "/var/lib/private", name == "/var/lib/private/idworker",
			name == "/var/lib/idworker", strings.HasPrefix(name, "/var/lib/idworker/"):
		default:
			m.Errorf("left behind: %s", name)
		}
	}
	if data == 0 {
		m.Error("the data is gone")
	}
	m.Logf("purged; left behind: %d files and folders in /var/lib/private/idworker", data)
}

// firstID: the package's own process serves at once.
func firstID(m *machine) {
	m.Helper()
	m.run("systemctl start idworker@all")
	m.run("idworker tag create order")
	first, err := strconv.ParseInt(m.run("idworker get order"), 10, 64)
	if err != nil || first < 1 {
		m.Errorf("the first ID is %d: %v", first, err)
	}
	m.Logf("%s; first ID %d", m.run("idworker version"), first)
}

// confined: the process runs as a user that exists as long as it, and can write
// nothing but its state and temporary files.
func confined(m *machine) {
	m.Helper()
	if out := m.run("systemd-analyze verify --man=no /usr/lib/systemd/system/idworker@.service 2>&1"); out != "" {
		m.Errorf("systemd-analyze verify prints %s", out)
	}
	lines := strings.Split(m.run("systemd-analyze security --no-pager idworker@all.service 2>/dev/null"), "\n")
	m.Log(strings.TrimSpace(lines[len(lines)-1]))

	pid := m.property("idworker@all", "MainPID")
	uid := m.run("stat -c %u /proc/" + pid)
	// systemd's range of dynamic users.
	if n, _ := strconv.Atoi(uid); n < 61184 || n > 65519 {
		m.Errorf("it runs as user %s", uid)
	}
	if caps := m.run("grep -h '^Cap' /proc/" + pid + "/status | tr -d '0\\n\\t '"); caps != "CapInh:CapPrm:CapEff:CapBnd:CapAmb:" {
		m.Errorf("it has capabilities: %s", caps)
	}
	writable := m.run(fmt.Sprintf(`nsenter -t %s -m -S %s -G %s find / \( -path /proc -o -path /sys \) -prune -o \( -type d -o -type f \) -writable -print 2>/dev/null || :`,
		pid, uid, uid))
	state := 0
	for name := range strings.Lines(writable) {
		name = strings.TrimSpace(name)
		switch {
		case strings.HasPrefix(name, "/var/lib/private/idworker/all"):
			state++
		case slices.Contains([]string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"}, name):
		default:
			m.Errorf("it can write %s", name)
		}
	}
	if state == 0 {
		m.Error("it cannot write its state")
	}
	m.Logf("runs as dynamic user %s; can write /var/lib/private/idworker/all (%d files and folders) and temporary folders", uid, state)
}

// upgrade upgrades the package while two workers and a loader, at a NATS server
// with a password, answer requests.
func upgrade(m *machine) {
	m.Helper()
	const password = "ambergris"
	m.run("printf '" + password + "' > /run/password")
	m.run(`cat > /run/nats.conf <<'end'
listen: 127.0.0.1:4222
jetstream { store_dir: /run/nats, sync_interval: always }
authorization { user: idworker, password: ` + password + ` }
end`)
	for i, name := range processes {
		role := "worker"
		if name == "loader" {
			role = "loader"
		}
		m.run(fmt.Sprintf(`cat > /etc/idworker/%[1]s.env <<'end'
IDWORKER_ROLE=%[2]s
NATS_URL=nats://127.0.0.1:4222
IDWORKER_HTTP=127.0.0.1:%[3]d
IDWORKER_USER=idworker
IDWORKER_PASSWORD_FILE=/run/credentials/idworker@%[1]s.service/password
end
install -m 0600 /run/password /etc/credstore/idworker.%[1]s.password
systemctl start --no-block idworker@%[1]s`, name, role, 9091+i))
	}
	natstest.Eventually(m, "processes that wait for NATS", func() bool {
		return m.run("journalctl -o cat -u idworker@a | grep -c -i 'nats' || :") != "0"
	})
	for _, name := range processes {
		if got := m.property("idworker@"+name, "ActiveState"); got != "activating" {
			m.Errorf("without NATS, idworker@%s is %s", name, got)
		}
	}
	m.run("systemd-run --unit=nats-server /root/nats-server -c /run/nats.conf")
	m.run("systemctl start idworker@a idworker@b idworker@loader")

	const login = " --user idworker --password-file /run/password "
	m.run("idworker tag create order" + login)
	pids := make(map[string]string)
	for _, name := range processes {
		pids[name] = m.property("idworker@"+name, "MainPID")
	}
	m.run("systemd-run --unit=bench --property=StandardOutput=file:/run/bench.json idworker bench order --snowflake --json --rate 2000 --duration 1h --history /run/history" + login)
	grows := func() {
		m.Helper()
		from := m.run("stat -c %s /run/history 2>/dev/null || echo 0")
		natstest.Eventually(m, "requests", func() bool { return m.run("stat -c %s /run/history 2>/dev/null || echo 0") != from })
	}
	grows()
	m.Log(m.run("dpkg -i /root/b.deb 2>&1"))
	grows()
	for _, name := range processes {
		now := m.property("idworker@"+name, "MainPID")
		if now == pids[name] || now == "0" {
			m.Errorf("idworker@%s has process %s after the upgrade, %s before", name, now, pids[name])
		}
	}
	inTurn(m)
	m.run("systemctl stop bench")
	var report struct {
		Requests, Failed, IDs int64
		Seconds               float64
		Failures, Broken      json.RawMessage
	}
	text := m.run("cat /run/bench.json")
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		m.Fatalf("%v: %s", err, text)
	}
	var broken struct {
		Duplicates, OutOfOrder int64
		NoReplies              int64 `json:"no_replies"`
	}
	if err := json.Unmarshal(report.Broken, &broken); err != nil {
		m.Fatal(err)
	}
	m.Logf("upgrade under load: %d requests in %.1f s, %d failed, %d IDs, %d duplicates", report.Requests, report.Seconds, report.Failed, report.IDs, broken.Duplicates)
	if report.Requests == 0 || report.Failed > 0 || broken.Duplicates+broken.NoReplies > 0 {
		m.Errorf("failures %s, broken %s", report.Failures, report.Broken)
	}
}

// inTurn: each process served again before the next one stopped. The bench does
// not show that, as its client tries again while no worker is there.
func inTurn(m *machine) {
	m.Helper()
	type absence struct {
		name     string
		from, to int
	}
	var absences []absence
	for _, name := range processes {
		at := func(property string) int {
			n, err := strconv.Atoi(m.property("idworker@"+name, property))
			if err != nil || n == 0 {
				m.Errorf("idworker@%s: %s is %d, %v", name, property, n, err)
			}
			return n
		}
		absences = append(absences, absence{name, at("ActiveExitTimestampMonotonic"), at("ActiveEnterTimestampMonotonic")})
	}
	slices.SortFunc(absences, func(a, b absence) int { return a.from - b.from })
	for i, next := range absences[1:] {
		if before := absences[i]; next.from < before.to {
			m.Errorf("idworker@%s stopped %d µs before idworker@%s served again", next.name, before.to-next.from, before.name)
		}
	}
}
