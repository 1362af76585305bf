package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// kindOf names a message's purpose.
func kindOf(subject string) string {
	tokens := strings.Split(subject, ".")
	switch {
	case tokens[0] == "$KV":
		return "write " + tokens[1]
	case strings.HasPrefix(subject, "$JS.API."):
		n := 4
		if len(tokens) > 4 && tokens[3] == "MSG" {
			n = 5
		}
		return "API " + strings.Join(tokens[2:min(n, len(tokens))], ".")
	case strings.HasPrefix(subject, "$JS."):
		return strings.Join(tokens[:2], ".")
	case strings.HasPrefix(subject, "_INBOX"):
		return "delivered"
	}
	return strings.Join(tokens[:min(2, len(tokens))], ".")
}

// own reports whether there would be no such message without the tap.
func own(subject string) bool { return strings.HasPrefix(subject, "$JS.EVENT.") }

// tap counts all messages of the account, by kind.
type tap struct {
	mu     sync.Mutex
	counts map[string]int
	since  time.Time
}

func newTap(t *testing.T, net *natstest.Node) *tap {
	t.Helper()
	tap := &tap{counts: make(map[string]int), since: time.Now()}
	conn := net.Connect(t)
	_, err := conn.Subscribe(">", func(m *nats.Msg) {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		if own(m.Subject) {
			return
		}
		kind := kindOf(m.Subject)
		if strings.HasPrefix(m.Reply, "$JS.ACK") { // to a consumer, with the subject that it was stored with
			kind = "delivered"
		}
		tap.counts[kind]++
	})
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return tap
}

// begin counts from now on.
func (tap *tap) begin() {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.counts, tap.since = make(map[string]int), time.Now()
}

// end returns the counts, and their duration.
func (tap *tap) end() (map[string]int, time.Duration) {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	return maps.Clone(tap.counts), time.Since(tap.since)
}

// sum adds up the kinds with a prefix.
func sum(counts map[string]int, prefix string) (n int) {
	for kind, count := range counts {
		if strings.HasPrefix(kind, prefix) {
			n += count
		}
	}
	return n
}

// perMinute is a table of counts.
func perMinute(counts map[string]int, took time.Duration) string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "\n%-28s %8.1f a minute", kind, float64(counts[kind])/took.Minutes())
	}
	return b.String()
}

// traffic is the traffic of connections, as their server counted it, and their
// subscriptions.
type traffic struct {
	toServer, fromServer int64
	subscriptions        uint32
	connections          int
}

// trafficOf is that of all connections to a server but some: a process has more
// of them than it was given.
func trafficOf(t *testing.T, net *natstest.Node, but map[uint64]bool) (all traffic) {
	t.Helper()
	for _, info := range connectionsTo(t, net) {
		if !but[info.Cid] {
			all.toServer, all.fromServer = all.toServer+info.InMsgs, all.fromServer+info.OutMsgs
			all.subscriptions += info.NumSubs
			all.connections++
		}
	}
	return all
}

// present are the connections that a server has.
func present(t *testing.T, net *natstest.Node) map[uint64]bool {
	t.Helper()
	ids := make(map[uint64]bool)
	for _, info := range connectionsTo(t, net) {
		ids[info.Cid] = true
	}
	return ids
}

func connectionsTo(t *testing.T, net *natstest.Node) []*server.ConnInfo {
	t.Helper()
	list, err := net.Running().Connz(&server.ConnzOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Conns
}
