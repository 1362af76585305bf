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
)

// TestUnknownTagsCostNothing requests IDs of hundreds of thousands of
// nonexistent tags, each once. They are refused, and none stays in memory. An
// existing tag is answered all the while, and afterwards a name is looked up
// again.
func TestUnknownTagsCostNothing(t *testing.T) {
	tier.Soak(t)
	tags := tier.Pick(300_000, 1_000_000)
	warm := tags / 5
	s := settings{binary: plainBinary(t)}.startServer(t, t.TempDir())
	createTag(t, s.url, "order")
	conn := connect(t, s.url)

	askUnknown(t, conn, 0, warm) // buffers and heap reach their size
	memory := residentBytes(t, s.process)
	askUnknown(t, conn, warm, tags)
	grown := residentBytes(t, s.process) - memory
	natstest.Eventually(t, "an unknown name is looked up", func() bool {
		msg, err := conn.Request("ids.segment.no-such-tag.any", nil, natstest.Patience)
		return err == nil && refusal(msg) == "404"
	})
	natstest.Eventually(t, "no unknown tag is in memory", func() bool {
		for _, figures := range stats(t, conn, 1) {
			if figures.Active > 1 {
				return false
			}
		}
		return true
	})
	// If each tag were remembered, with a hundred bytes at least, it would be
	// 24 MB or more.
	if grown > 16<<20 {
		t.Errorf("the process grew by %d bytes, from %d", grown, memory)
	}
	t.Logf("%d unknown tags; the process had %d KB and grew by %d KB", tags, memory>>10, grown>>10)
}

func refusal(msg *nats.Msg) string { return msg.Header.Get("Nats-Service-Error-Code") }

// askUnknown requests IDs of the tags numbered [from, to), many at a time, and
// checks that each answer is a 404, or a 429 if there are too many. Now and
// then it requests an existing tag.
func askUnknown(t testing.TB, conn *nats.Conn, from, to int) {
	t.Helper()
	const flight = 500
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	known := requester{conn: conn}
	asked := from
	for answered := from; answered < to; answered++ {
		for ; asked < to && asked-answered < flight; asked++ {
			if err := conn.PublishRequest("ids.segment.no-such-tag."+strconv.Itoa(asked), inbox, nil); err != nil {
				t.Fatal(err)
			}
		}
		if answered%10_000 == 0 {
			known.next(t, "order")
		}
		msg, err := sub.NextMsg(natstest.Patience)
		if err != nil || refusal(msg) != "404" && refusal(msg) != "429" {
			t.Fatalf("answer %v, %v, want a 404 or a 429", msg, err)
		}
	}
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
