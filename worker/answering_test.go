package worker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// newGroupsOnly makes an answering half that has queue groups and nothing to answer with.
func newGroupsOnly() *answering {
	p := processInfo{cfg: Config{}.WithDefaults()}
	return newAnswering(p, &supply{unanswered: &unanswered{}}, newSnowflakes(p, nil))
}

// slowMember has left when the test says so.
type slowMember struct{ *fakeMember }

func (slowMember) stop() {}

// TestLeavingAwaitsEveryPlace: a half that leaves waits for each of its places, that of a
// process that gives way too. Stop returns after it, and leaves no connection behind.
func TestLeavingAwaitsEveryPlace(t *testing.T) {
	for what, group := range map[string]func(*answering) *membership{
		"segment":   func(a *answering) *membership { return a.group },
		"snowflake": func(a *answering) *membership { return a.snowflakes.group },
		"aside":     func(a *answering) *membership { return a.aside },
	} {
		synctest.Test(t, func(t *testing.T) {
			a, slow, done := newGroupsOnly(), slowMember{newFakeMember()}, make(chan struct{})
			if err := <-group(a).join(func() (member, error) { return slow, nil }); err != nil {
				t.Fatal(err)
			}
			go func() { defer close(done); a.leave() }()
			synctest.Wait()
			select {
			case <-done:
				t.Errorf("%s: left before the place has", what)
			default:
			}
			close(slow.gone)
			<-done
		})
	}
}

// TestSaysWhyItIsNotInTheGroup: a process that cannot enter a queue group says which one, and
// why, and calls itself overloaded only if it is. Without the group of snowflake requests it is
// ready, since it answers the others.
func TestSaysWhyItIsNotInTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newGroupsOnly()
		defer a.leave()
		failing := errors.New("no servers available")
		check := func(what string, err error, group, why string) {
			t.Helper()
			switch {
			case why == "" && err != nil:
				t.Errorf("%s: %v", what, err)
			case why != "" && (err == nil || !strings.Contains(err.Error(), "not in the queue group of "+group+" requests: "+why)):
				t.Errorf("%s: %v, want it to say %q of %s requests", what, err, why, group)
			}
		}
		join := func(group *membership, want error) {
			t.Helper()
			if err := <-group.join(func() (member, error) { return newFakeMember(), want }); !errors.Is(err, want) {
				t.Errorf("joining: %v, want %v", err, want)
			}
		}
		join(a.group, failing)
		check("cannot enter", a.ready(), "segment", failing.Error())
		a.group.leave()
		join(a.group, nil)
		check("in", a.ready(), "segment", "")
		a.group.stayAway(overloaded, true)
		check("overloaded", a.ready(), "segment", "overloaded")
		a.group.stayAway(overloaded, false)
		synctest.Wait()
		check("back", a.ready(), "segment", "")

		check("no worker ID", a.degraded(), "snowflake", "")
		join(a.snowflakes.group, failing)
		check("cannot enter", a.degraded(), "snowflake", failing.Error())
		check("cannot enter, but answers others", a.ready(), "segment", "")
	})
}
