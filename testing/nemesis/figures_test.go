package nemesis

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestFaultsThatWereNotDone: skipped faults are counted apart, and outcomes of
// requests during them are not attributed to them.
func TestFaultsThatWereNotDone(t *testing.T) {
	var f outcomes
	kill := f.begin(Fault{Kind: "kill"}, 0)
	full := f.begin(Fault{Kind: "disk full"}, 0)
	f.add(&Call{Kind: Single, Tag: "order", Sent: time.Second, Received: 2 * time.Second, Count: 1, Err: "no"})
	f.end(kill, 3*time.Second, nil)
	f.end(full, 3*time.Second, errors.ErrUnsupported)
	if done, not := f.count(); done != 1 || not != 1 {
		t.Errorf("%d done, %d not", done, not)
	}
	table := f.table()
	if !strings.Contains(table, "kill|     1|        1|      1|") || strings.Contains(table, "disk full") {
		t.Errorf("got\n%s", table)
	}
}
