package compat

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// TestRolling upgrades three workers and two loaders from the old version to
// this one, one by one, in the order of docs/upgrades.md, and back, while callers
// make 500 calls a second: no call fails, no ID comes twice, and those of a strict
// tag ascend. A request that is sent only once gets a reply, too.
func TestRolling(t *testing.T) {
	tier.All(t)
	t.Parallel()
	t.Run("JetStream", func(t *testing.T) { newRollingSite(t).upgradeAndBack() })
	t.Run("PostgreSQL", func(t *testing.T) {
		s := newRollingSite(t)
		db := dbtest.Postgres(t)
		db.Exec(t, leaftest.Postgres.Shapes["official"])
		s.env = append(s.env, "IDWORKER_STORE="+db.DSN())
		s.upgradeAndBack()
	})
}

// TestRaiseOfTwoVersions raises all tags while processes of both versions run and
// callers call, all of them with the rights that the old version's nats.conf
// grants. Then it replaces processes by those of each version, and restores a
// backup beside them. Once a command has ended, only the workers that it names
// hand out IDs of before. Commands of the old version work after that, too.
func TestRaiseOfTwoVersions(t *testing.T) {
	tier.All(t)
	s := newRollingSite(t)
	s.begin()
	backup := filepath.Join(t.TempDir(), "backup")
	s.run(s.after, as("backup", "backup", backup)...)
	s.roll(s.after, 0, all/2)
	s.raise(2, s.after, as("admin", "tag", "raise", "--all")...)
	s.awaitAnswers(second)
	s.roll(s.after, all/2, all)
	s.allFollow()
	s.roll(s.before, 0, all/2)
	s.raise(1, s.after, as("restore", "restore", backup, "--raise-anyway")...)
	s.awaitAnswers(second)
	s.run(s.after, as("monitor", "status")...)
	for _, binary := range []string{s.before, s.after} {
		for _, role := range []string{"worker", "loader", "admin"} {
			// Under this load, a tag's buffer may be empty for a moment.
			natstest.Eventually(s, role+": doctor finds no fault", func() bool {
				return s.start(binary, "", as(role, "doctor", "--role", role)...).Cmd.ProcessState.Success()
			})
		}
	}
	s.run(s.before, as("backup", "backup", filepath.Join(t.TempDir(), "backup"))...)
	s.endCalls()
}

// roles are those of the processes, in the order in which they are replaced.
var roles = [...]string{"worker", "loader", "worker", "loader", "worker"}

const all = len(roles)

// rollingSite is a site whose processes are replaced.
type rollingSite struct {
	*busySite
	before, after string // binaries of the two versions
	processes     [all]*process.Running
}

func newRollingSite(t *testing.T) *rollingSite {
	t.Parallel()
	return &rollingSite{
		busySite: newBusySite(t, build(t, "nats-server", process.NATSServer)),
		before:   buildOld(t), after: build(t, "idworker", process.Command),
	}
}

// begin makes a site of the old version, and starts its callers.
func (s *rollingSite) begin() {
	s.useRights(filepath.Join(oldSource(s.T), "nats.conf"))
	s.restartServer()
	s.makeTags(s.before, 100)
	for i, role := range roles {
		s.processes[i] = s.launch(s.before, as(role, "serve", "--role", role)...)
	}
	for _, p := range s.processes {
		p.AwaitLog(s, serving)
	}
	s.connectCallers()
	s.startCallers()
	s.awaitAnswers(second)
}

// upgradeAndBack follows docs/upgrades.md: rights, a backup, processes, the
// command, and then the outage, with which the processes are restarted.
func (s *rollingSite) upgradeAndBack() {
	s.begin()
	s.upgradeRights()
	s.run(s.after, as("backup", "backup", filepath.Join(s.TempDir(), "backup"))...)
	s.roll(s.after, 0, all)
	s.administer(s.after, "provision --part ids")
	s.haveFences(30 * time.Second)
	s.administer(s.after, "provision --part ids --outage 1h")
	s.roll(s.after, 0, all)
	s.haveFences(time.Hour)
	s.roll(s.before, 0, all)
	s.endCalls()
	s.leaveReserved()
}

// haveFences waits until all workers hold a worker ID. Their fences have to be of
// a length, which is in the leases, where workers of the old version read it, too.
func (s *rollingSite) haveFences(want time.Duration) {
	s.Helper()
	conn := s.connect("admin", "_INBOX_admin")
	js, err := jetstream.New(conn)
	if err != nil {
		s.Fatal(err)
	}
	workers := 0
	for _, role := range roles {
		if role == "worker" {
			workers++
		}
	}
	var leases map[string]string
	natstest.Eventually(s, "all workers have a worker ID", func() bool {
		leases, err = kv.Values(s.Context(), js, "ids_workers")
		return err == nil && len(leases) == workers
	})
	for id, text := range leases {
		var lease struct{ TTL int64 }
		if err := json.Unmarshal([]byte(text), &lease); err != nil || lease.TTL != want.Milliseconds() {
			s.Errorf("worker ID %s has a lease %s, %v; want a fence of %v", id, text, err, want)
		}
	}
}

var workerID = regexp.MustCompile(`worker ID claimed.*"worker_id": "(\d+)"`)

// leaveReserved: a worker of the old version does not get the worker ID of a dead
// one of this version, whose lease has expired, and whose long fence has not.
func (s *rollingSite) leaveReserved() {
	s.Helper()
	dead := s.launch(s.after, as("worker", "serve", "--role", "worker")...)
	var id string
	natstest.Eventually(s, "it has a worker ID", func() bool {
		found := workerID.FindStringSubmatch(dead.Stderr.String())
		if found != nil {
			id = found[1]
		}
		return found != nil
	})
	dead.Kill()
	s.launch(s.before, as("worker", "serve", "--role", "worker", "--worker-id", id)...)
	natstest.Eventually(s, "it finds the worker ID reserved", func() bool {
		return strings.Contains(s.run(s.after, as("monitor", "status")...), "worker ID "+id+" is reserved until")
	})
}

// upgradeRights makes this version's nats.conf that of the server, which runs on.
func (s *rollingSite) upgradeRights() {
	s.useRights("../../nats.conf")
	s.reloadServer()
}

// second is the number of a caller's calls in a second.
const second = int(time.Second / pace)

// roll replaces processes, one after the other, by those of another version.
// Callers make 500 calls in between.
func (s *rollingSite) roll(binary string, from, to int) {
	s.Helper()
	for i, role := range roles[from:to] {
		s.processes[from+i] = s.replace(s.processes[from+i], binary, role)
		s.awaitAnswers(second)
	}
}
