package durability_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/testing/natstest"
)

// TestVersionsThatLoseStreams: the versions with a known loss are told from those
// without, and from those that cannot be read.
func TestVersionsThatLoseStreams(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][2]bool{ // loses streams, revives old entries
		"2.10.0": {true, true}, "2.10.20": {true, true}, "2.10.22": {true, true}, "2.10.22-RC.1": {true, true},
		"2.10.23": {false, true}, "2.11.0": {false, true}, "2.12.1": {false, true},
		"2.12.2": {false, false}, "2.15.2": {false, false}, "3.0.0": {false, false}, "": {false, false}, "dev": {false, false},
	} {
		if got := [2]bool{durability.LosesStreams(version), durability.RevivesOld(version)}; got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}

func may(string) bool { return true }

// TestEachServerIsAsked: an ordinary account learns the version of each server of
// a cluster. Without the right to ask, it does not take the server that it is
// connected to for all of them.
func TestEachServerIsAsked(t *testing.T) {
	t.Parallel()
	conn := natstest.StartCluster(t, 3).Connect(t)
	natstest.Eventually(t, "three servers answer", func() bool {
		servers, all, err := durability.Versions(t.Context(), conn, may)
		if err != nil {
			t.Fatalf("%v, all %v, %v", servers, all, err)
		}
		return all && len(servers) == 3 && servers[0].Version == conn.ConnectedServerVersion() && servers[2].Version == servers[0].Version
	})
	servers, all, err := durability.Versions(t.Context(), conn, func(string) bool { return false })
	if err != nil || all || len(servers) != 1 || servers[0].Name != conn.ConnectedServerName() {
		t.Errorf("without a right: %v, all %v, %v", servers, all, err)
	}
}

// TestOneOldServer: an old server is found although it is not the connected one.
func TestOneOldServer(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t).Connect(t)
	answer(t, conn, "2.15.2", "2.10.20")
	var servers []durability.ServerVersion
	natstest.Eventually(t, "both servers answer", func() bool {
		all, err := false, error(nil)
		if servers, all, err = durability.Versions(t.Context(), conn, may); err != nil {
			t.Fatal(err)
		}
		return all && len(servers) == 2
	})
	lost := new(durability.LossError)
	if !errors.As(durability.CheckVersions(servers), &lost) || !slices.Equal(lost.Servers, []durability.ServerVersion{{Name: "n1", Version: "2.10.20"}}) {
		t.Errorf("%v, %v", servers, lost)
	}
	if err := durability.CheckVersions(servers[:1]); err != nil {
		t.Error(err)
	}
}

// answer answers as servers n0, n1 … of these versions.
func answer(t *testing.T, conn *nats.Conn, versions ...string) {
	t.Helper()
	sub, err := conn.Subscribe(durability.AskServers, func(msg *nats.Msg) {
		for i, version := range versions {
			_ = msg.Respond(fmt.Appendf(nil, `{"server":{"name":"n%d","ver":%q},"data":{"config":{"sync_always":true}}}`, i, version))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}
