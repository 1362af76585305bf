package nemesis

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestLosses: the table has what losses have done, also one that was not mended as
// intended.
func TestLosses(t *testing.T) {
	var f outcomes
	old := Fault{Number: 1, Kind: "folder old", Forget: loadersForget}
	lost := Fault{Number: 2, Kind: "folder old"}
	none := Fault{Number: 3, Kind: "folder old"}
	for fault, failure := range map[*Fault]error{&old: nil, &lost: errNoLeader, &none: errNoLeader} {
		f.end(f.begin(*fault, 0), time.Second, failure)
	}
	f.bite(old, func(b *bite) { b.files, b.lost, b.stopped, b.raised = 20, 7, true, true })
	f.bite(lost, func(b *bite) { b.files = 20 })
	if got, want := f.bitten(old).String(), " files 20 lost 7 stopped raised"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if table := f.table(); !strings.Contains(table, "folder old|     2|          2|       0|      1|           7|       1|      1|         1|") {
		t.Errorf("got\n%s", table)
	}
}

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
