package compat

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// TestRolling rolls loaders and workers from 0.1.0 to this version and back, one
// process at a time, while callers request IDs: every process starts, no call
// fails, no ID comes twice, and those of a strict tag ascend. Then again, with a
// raise of all tags while both versions run.
//
// The first round runs with nats.conf of 0.1.0: processes that serve need no
// other rights. The second begins with this version's, and its provisioning.
func TestRolling(t *testing.T) {
	tier.All(t)
	source := source010(t)
	s := &rollingSite{busySite: newBusySite(t, build(t, "nats-server", process.NATSServer))}
	before, after := build010(t, source), build(t, "idworker", process.Command)

	s.useRights(filepath.Join(source, "nats.conf"))
	s.restartServer()
	for _, command := range []string{
		"provision --part ids", "tag create order --step 100", "tag create invoice --order strict --step 100", "tag create chat.* --template --step 100",
	} {
		s.administer(before, command)
	}
	for i, role := range roles {
		s.processes[i] = s.serves(before, role)
	}
	s.startCallers()

	all := len(roles)
	s.roll(after, 0, all)
	s.roll(before, 0, all)

	s.useRights("../../nats.conf")
	s.reloadServer()
	s.administer(after, "provision --part ids")
	s.roll(after, 0, all/2)
	raised := time.Now()
	s.administer(after, "tag raise --all --yes")
	s.awaitAnswers()
	s.roll(after, all/2, all)
	s.roll(before, 0, all)

	s.stopCallers()
	t.Logf("answers: %v", s.answers)
	s.checkRights()
	for _, tag := range []string{"order", "invoice", "chat.0", "chat.new"} {
		if id, err := s.client.Next(t.Context(), tag); err != nil || id < raised.UnixMicro() {
			t.Errorf("%s has ID %d after the raise, %v; want one above %d", tag, id, err, raised.UnixMicro())
		}
	}
}

// roles are those of the processes, in the order in which they are replaced.
var roles = [...]string{"worker", "loader", "worker", "loader", "worker"}

// rollingSite is a site whose processes are replaced.
type rollingSite struct {
	*busySite
	processes [len(roles)]*process.Running
}

// roll replaces processes, one after the other, by those of another version.
// Calls of each kind are answered in between.
func (s *rollingSite) roll(binary string, from, to int) {
	s.Helper()
	for i, role := range roles[from:to] {
		p := s.processes[from+i]
		if p.HasEnded() {
			s.Fatalf("%s ended: %v", role, p.Cmd.ProcessState)
		}
		p.Signal(syscall.SIGTERM)
		natstest.Eventually(s, role+" stops", p.HasEnded)
		if !p.Cmd.ProcessState.Success() {
			s.Fatalf("%s stopped: %v", role, p.Cmd.ProcessState)
		}
		s.processes[from+i] = s.serves(binary, role)
		s.awaitAnswers()
	}
}
