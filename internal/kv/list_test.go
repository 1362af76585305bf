package kv

import (
	"fmt"
	"testing"
)

// Requests list the same entries as a consumer, deleted ones too, and also those
// that are written again before their turn.
func TestListByRequests(t *testing.T) {
	f := newFeeds(t)
	f.put("a", "b", "c", "a")
	if err := f.kv.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for n := range 600 { // above a window of requests
		f.put(fmt.Sprint(n))
	}
	want, err := Latest(t.Context(), f.js, "b", ByConsumer)
	if err != nil {
		t.Fatal(err)
	}
	moved := false
	got := make(map[string]Entry)
	err = ListAll(t.Context(), f.js, "b", ByRequests, func(e Entry) bool {
		if !moved {
			f.put("599")
			moved = true
		}
		e.Created, got[e.Key] = want[e.Key].Created, e
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, w := range want {
		g, ok := got[key]
		if !ok || g.Deleted != w.Deleted || string(g.Value) != string(w.Value) || g.Revision != w.Revision && key != "599" {
			t.Errorf("%s: %+v, want %+v", key, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
}
