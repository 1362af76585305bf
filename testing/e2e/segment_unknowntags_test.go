package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// TestUnknownTagsCostNothing asks for hundreds of thousands of tags that do not exist, each
// once. They are refused from memory: no store is asked, and none is remembered.
func TestUnknownTagsCostNothing(t *testing.T) {
	tier.Soak(t)
	tags := tier.Pick(300_000, 1_000_000)
	warm := tags / 5
	s := settings{binary: plainBinary(t)}.startServer(t, t.TempDir())
	createTag(t, s.url, "order")
	conn := connect(t, s.url)

	askUnknown(t, conn, 0, warm) // buffers and heap reach their size
	before, memory := writes(stats(t, conn, 1)), residentBytes(t, s.process)
	askUnknown(t, conn, warm, tags)
	grown := residentBytes(t, s.process) - memory
	if after := writes(stats(t, conn, 1)); after != before || before == 0 {
		t.Errorf("%d store accesses, %d before the unknown tags", after, before)
	}
	for _, figures := range stats(t, conn, 1) {
		if figures.Active != 1 {
			t.Errorf("%d active tags, want 1", figures.Active)
		}
	}
	// If each tag were remembered, with a hundred bytes at least, it would be 24 MB or more.
	if grown > 16<<20 {
		t.Errorf("the process grew by %d bytes, from %d", grown, memory)
	}
	t.Logf("%d unknown tags; the process had %d KB and grew by %d KB", tags, memory>>10, grown>>10)
}

// askUnknown asks for the tags numbered [from, to), many at a time, and checks that each
// answer is a 404.
func askUnknown(t testing.TB, conn *nats.Conn, from, to int) {
	t.Helper()
	const flight = 500
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	asked := from
	for answered := from; answered < to; answered++ {
		for ; asked < to && asked-answered < flight; asked++ {
			if err := conn.PublishRequest("ids.segment.no-such-tag."+strconv.Itoa(asked), inbox, nil); err != nil {
				t.Fatal(err)
			}
		}
		msg, err := sub.NextMsg(natstest.Patience)
		if err != nil || msg.Header.Get("Nats-Service-Error-Code") != "404" {
			t.Fatalf("answer %v, %v, want a 404", msg, err)
		}
	}
}

// writes is how often the store was asked.
func writes(all map[string]worker.Stats) (n int64) {
	for _, s := range all {
		n += s.Loads.Writes
	}
	return n
}

// residentBytes is the memory of a process.
func residentBytes(t testing.TB, p *process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("memory of a process can be read on Linux only: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
