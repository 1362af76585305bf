package enrich

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMapping(t *testing.T) {
	for _, c := range []struct{ filter, to, subject, want string }{
		{"raw.>", "ready.>", "raw.eu.1", "ready.eu.1"},
		{"raw.*.*", "ready.*.x.*", "raw.eu.1", "ready.eu.x.1"},
		{"raw.*.>", "*.ready.>", "raw.eu.1.2", "eu.ready.1.2"},
		{"raw.*", "ready", "raw.eu", "ready"},
		{">", "all.>", "raw.eu", "all.raw.eu"},
	} {
		m, err := newMapping(c.filter, c.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.apply(c.subject); got != c.want {
			t.Errorf("%s → %s: %s gives %s, want %s", c.filter, c.to, c.subject, got, c.want)
		}
	}
}

// A plan lists its events, even after the first of them are removed.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []uint64
		var p plan
		var seq uint64
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			seq += rapid.Uint64Range(1, 2).Draw(t, "gap")
			p.add(seq)
			want = append(want, seq)
		}
		through := rapid.Uint64Range(0, seq).Draw(t, "through")
		p.dropThrough(through)
		want = slices.DeleteFunc(want, func(s uint64) bool { return s <= through })
		if got := p.sequences(); !slices.Equal(got, want) {
			t.Fatalf("events %v, want %v", got, want)
		}
	})
}
