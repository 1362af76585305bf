package nemesis

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var stores = []string{"jetstream", "mysql", "postgres"}

func TestSameSeedSameFaults(t *testing.T) {
	for _, store := range stores {
		a, b := Schedule(7, store, time.Hour), Schedule(7, store, time.Hour)
		if !slices.Equal(a, b) {
			t.Errorf("%s: two schedules of one seed differ", store)
		}
		if slices.Equal(a, Schedule(8, store, time.Hour)) {
			t.Errorf("%s: the schedules of two seeds are equal", store)
		}
		short := Schedule(7, store, 5*cycle)
		if len(short) == 0 || !slices.Equal(short, a[:len(short)]) {
			t.Errorf("%s: a longer run does not begin as a shorter one does:\n%s\n%s", store, Table(short), Table(a[:len(short)]))
		}
	}
}

// TestFaultsAreAsDescribed: a fault every 3 s, several at a time, in storms;
// none on a part that has a fault already.
func TestFaultsAreAsDescribed(t *testing.T) {
	for _, store := range stores {
		all := Schedule(3, store, 100*cycle)
		if want := int(100 * cycle / every); len(all) != want {
			t.Errorf("%s: %d faults, want %d", store, len(all), want)
		}
		together, seen := 0, make(map[string]bool)
		for i, f := range all {
			seen[f.Kind] = true
			if f.Begin%cycle >= storm || (f.End-1)%cycle >= storm || f.End <= f.Begin {
				t.Errorf("%s: %v is not in a storm", store, f)
			}
			if i > 0 && (f.Begin < all[i-1].Begin || f.Number != all[i-1].Number+1) {
				t.Errorf("%s: %v after %v", store, f, all[i-1])
			}
			for _, other := range all[max(0, i-30):i] {
				if other.End <= f.Begin {
					continue
				}
				together++
				for _, part := range partsOf(t, other) {
					if slices.Contains(partsOf(t, f), part) {
						t.Errorf("%s: %v while %v: both take hold of %s", store, f, other, part)
					}
				}
			}
		}
		if together < len(all) {
			t.Errorf("%s: %d pairs of faults overlap, of %d faults", store, together, len(all))
		}
		for _, k := range kindsFor(store) {
			if !seen[k.name] {
				t.Errorf("%s: no fault %q", store, k.name)
			}
		}
		if store == "jetstream" && strings.Contains(Table(all), "database") {
			t.Errorf("faults of a database without one")
		}
	}
}

func partsOf(t *testing.T, f Fault) []string {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == f.Kind })
	if i < 0 {
		t.Fatalf("no kind %q", f.Kind)
	}
	return kinds[i].parts(f.Victim)
}
