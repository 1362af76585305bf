package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

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

	begin := time.Now()
	askUnknown(t, s.url, 0, warm) // buffers and heap reach their size
	before, memory := writes(stats(t, conn, 1)), residentBytes(t, s.process)
	askUnknown(t, s.url, warm, tags)
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
	t.Logf("%d unknown tags in %v; the process had %d KB and grew by %d KB", tags, time.Since(begin).Round(time.Millisecond), memory>>10, grown>>10)
}

// askUnknown asks for the tags numbered [from, to), many at a time, and checks that each
// answer is a 404. It speaks the protocol itself, which costs a tenth of what a client does
// under the race detector.
func askUnknown(t testing.TB, url string, from, to int) {
	t.Helper()
	const flight = 500
	conn := dialRaw(t, url, "SUB box 1\r\n")
	defer func() { _ = conn.Close() }()
	in := bufio.NewScanner(conn)
	asked := from
	for answered := from; answered < to; {
		if asked-answered < flight/2 && asked < to {
			var requests []byte
			for ; asked < to && asked-answered < flight; asked++ {
				requests = append(requests, "PUB ids.segment.no-such-tag."...)
				requests = strconv.AppendInt(requests, int64(asked), 10)
				requests = append(requests, " box 0\r\n\r\n"...)
			}
			if _, err := conn.Write(requests); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetDeadline(time.Now().Add(natstest.Patience))
		if !in.Scan() {
			t.Fatalf("after %d of %d answers: %v", answered, asked, in.Err())
		}
		switch line := in.Bytes(); {
		case bytes.Equal(line, []byte("Nats-Service-Error-Code: 404")):
			answered++
		case bytes.HasPrefix(line, []byte("Nats-Service-Error-Code:")), bytes.HasPrefix(line, []byte("NATS/1.0 ")), bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("-ERR")):
			t.Fatalf("answer %q, want a 404", line)
		case bytes.Equal(line, []byte("PING")):
			if _, err := conn.Write([]byte("PONG\r\n")); err != nil {
				t.Fatal(err)
			}
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
