package e2e

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNumbersRunOutWithAClearError uses up a tag that begins just below 2^63.
func TestNumbersRunOutWithAClearError(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--max-step", "10", "--max-batch", "10")
	const first = math.MaxInt64 - 100
	must(t, "tag", "create", "--server", s.url, "last", "--step", "5", "--max-step", "10", "--first", "9223372036854775707")
	client := dial(t, s.url)
	last := int64(first - 1)
	for deadline := time.Now().Add(readyWithin); ; {
		id, err := client.Next(t.Context(), "last")
		if errors.Is(err, messages.ErrNoTag) && last < first && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond) // the worker has not heard of it
			continue
		}
		if errors.Is(err, messages.ErrExhausted) {
			break
		}
		if err != nil || id <= last {
			t.Fatalf("ID %d after %d, error %v", id, last, err)
		}
		last = id
	}
	// What is left is less than one step.
	if last < math.MaxInt64-11 {
		t.Errorf("the last ID was %d, %d below the end", last, math.MaxInt64-last)
	}
	for range 5 {
		if r := run(t, "get", "--server", s.url, "last"); r.code != exitExhausted || r.stdout != "" {
			t.Errorf("get of a tag that is used up: %+v, want exit code %d", r, exitExhausted)
		}
	}
	msg, err := connect(t, s.url).Request("ids.segment.last", nil, 5*time.Second)
	if err != nil || msg.Header.Get("Nats-Service-Error-Code") != "507" {
		t.Errorf("answer %v, %v; want a 507", msg, err)
	}
	t.Logf("the last ID is 2^63 - %d", uint64(1<<63)-uint64(last))

	// A tag without room for one segment is refused; one with room for one ID gives it.
	if r := run(t, "tag", "create", "--server", s.url, "end", "--first", "9223372036854775807", "--step", "1"); r.code != exitUsage || !strings.Contains(r.stderr, "leaves no room") {
		t.Errorf("tag create past the end: %+v", r)
	}
	must(t, "tag", "create", "--server", s.url, "end", "--first", "9223372036854775806", "--step", "1")
	natstest.Eventually(t, "the very last ID", func() bool {
		return run(t, "get", "--server", s.url, "end").stdout == "9223372036854775806\n"
	})
	if r := run(t, "get", "--server", s.url, "end"); r.code != exitExhausted {
		t.Errorf("get past the end: %+v, want exit code %d", r, exitExhausted)
	}
}
