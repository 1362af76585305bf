package enrich

import "testing"

// TestChanges: of other settings, those are named that are different, and no others.
func TestChanges(t *testing.T) {
	was := settings{Installation: "A", From: "ORDERS", Filter: ">", To: "t.>", ID: "segment:order"}
	now := was
	now.ID, now.JSON, now.JSONNumber = "segment:nosuch", "a.id", true
	const want = "id was segment:order, now segment:nosuch; json was not set, now a.id; json-number was false, now true"
	if got := was.changes(now); got != want {
		t.Error(got)
	}
}
