package worker

import (
	"errors"
	"testing"
)

type fakeMember struct{ stopped bool }

func (m *fakeMember) Stop() error   { m.stopped = true; return nil }
func (m *fakeMember) Stopped() bool { return m.stopped }

// TestReasonsToStayAway: a process is in a queue group only while no reason keeps it out, in
// whatever order they come and go, and it is missing only if it should be there.
func TestReasonsToStayAway(t *testing.T) {
	var current *fakeMember
	m := new(membership)
	open := func() (member, error) {
		current = new(fakeMember)
		return current, nil
	}
	check := func(what string, in, missing bool, err error) {
		t.Helper()
		if got := current != nil && !current.stopped; got != in || m.missing() != missing || err != nil {
			t.Errorf("%s: in %v, want %v; missing %v, want %v; %v", what, got, in, m.missing(), missing, err)
		}
	}
	check("before there is anything to answer with", false, false, m.stayAway(givingWay, true))
	check("joining while giving way", false, false, m.join(open))
	check("overloaded too", false, false, m.stayAway(overloaded, true))
	check("no longer overloaded", false, false, m.stayAway(overloaded, false))
	check("back", true, false, m.stayAway(givingWay, false))
	check("overloaded", false, true, m.stayAway(overloaded, true))
	check("giving way too", false, false, m.stayAway(givingWay, true))
	check("no longer giving way", false, true, m.stayAway(givingWay, false))
	check("back again", true, false, m.stayAway(overloaded, false))
	m.leave()
	check("left", false, false, nil)
	failing := errors.New("failing")
	if err := m.join(func() (member, error) { return nil, failing }); !errors.Is(err, failing) || !m.missing() {
		t.Errorf("joining fails: %v, missing %v", err, m.missing())
	}
	m.close()
	check("joining when closed", false, true, m.join(open))
}
