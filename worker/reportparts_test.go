package worker

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestReportInParts: a report of many tags comes in parts, which need not come in order.
func TestReportInParts(t *testing.T) {
	t.Parallel()
	const many = 2*tagsPerPart + 1
	r := Report{Instance: "W", Host: "here"}
	for n := range many {
		r.Stats.Tags = append(r.Stats.Tags, TagStats{Tag: fmt.Sprint("tag", n)})
	}
	parts := r.split()
	if len(parts) != 3 {
		t.Fatalf("%d parts, want 3", len(parts))
	}
	var g gathering
	for _, i := range []int{1, 0, 2} {
		if g.isComplete("W") {
			t.Errorf("complete before part %d", i)
		}
		data, err := json.Marshal(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		g.add(data)
	}
	all := g.complete()
	if len(all) != 1 || all[0].Host != "here" || len(all[0].Stats.Tags) != many {
		t.Fatalf("%d reports: %.200v", len(all), all)
	}
	for n, tag := range all[0].Stats.Tags {
		if want := fmt.Sprint("tag", n); tag.Tag != want {
			t.Fatalf("%s where %s should be", tag.Tag, want)
		}
	}
}
