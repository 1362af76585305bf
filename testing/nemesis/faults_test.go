package nemesis

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	stores     = []string{"jetstream", "mysql", "postgres"}
	everything = regexp.MustCompile("")
)

func TestSameSeedSameFaults(t *testing.T) {
	for _, store := range stores {
		a, b := Schedule(7, store, everything, time.Hour), Schedule(7, store, everything, time.Hour)
		if !slices.Equal(a, b) {
			t.Errorf("%s: two schedules of one seed differ", store)
		}
		if slices.Equal(a, Schedule(8, store, everything, time.Hour)) {
			t.Errorf("%s: the schedules of two seeds are equal", store)
		}
		short := Schedule(7, store, everything, 5*cycle)
		if len(short) == 0 || !slices.Equal(short, a[:len(short)]) {
			t.Errorf("%s: a longer run does not begin as a shorter one does:\n%s\n%s", store, Table(short), Table(a[:len(short)]))
		}
	}
}

// TestFaultsAreAsDescribed: a fault every 3 s, several at a time, in storms;
// none on a part that has a fault already.
func TestFaultsAreAsDescribed(t *testing.T) {
	for _, store := range stores {
		all := Schedule(3, store, everything, 100*cycle)
		if most := int(100 * cycle / every); len(all) > most || len(all) < most*9/10 {
			t.Errorf("%s: %d faults, want at most %d, and hardly fewer", store, len(all), most)
		}
		together, seen := 0, make(map[string]bool)
		for i, f := range all {
			seen[f.Kind], seen[f.Forget] = true, true
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
		for _, k := range kindsFor(store, everything) {
			if !seen[k.name] {
				t.Errorf("%s: no fault %q", store, k.name)
			}
		}
		for _, name := range forgets(everything) {
			if !seen[name] {
				t.Errorf("%s: no fault %q", store, name)
			}
		}
		if store == "jetstream" && strings.Contains(Table(all), "database") {
			t.Errorf("faults of a database without one")
		}
	}
}

// TestSelectedFaults: only the faults of a selection are in a schedule.
func TestSelectedFaults(t *testing.T) {
	all := Schedule(3, "jetstream", regexp.MustCompile("^(folder old|loaders forget)$"), 100*cycle)
	forgotten := 0
	for _, f := range all {
		if f.Kind != "folder old" {
			t.Errorf("%v is not selected", f)
		}
		if f.Forget == loadersForget {
			forgotten++
		}
	}
	if len(all) < 100 || forgotten < len(all)/2 || forgotten == len(all) {
		t.Errorf("%d faults, and loaders forget in %d", len(all), forgotten)
	}
	if none := Schedule(3, "jetstream", regexp.MustCompile("^(database killed|all forget)$"), cycle); len(none) > 0 {
		t.Errorf("got %v, although none is possible", none)
	}
}

// TestOutagesAreAsDescribed: a majority of the servers is away half of the time,
// with other faults during it and at its end. None is on a part that has one
// already.
func TestOutagesAreAsDescribed(t *testing.T) {
	const cycles = 100
	all := Outages(3, cycles*outageCycle)
	if !slices.Equal(all, Outages(3, cycles*outageCycle)) || slices.Equal(all, Outages(4, cycles*outageCycle)) {
		t.Error("a schedule does not depend on its seed alone")
	}
	var away, ends time.Duration
	during, atItsEnd, seen := 0, 0, make(map[string]bool)
	for i, f := range all {
		seen[f.Kind] = true
		if f.Kind == "majority away" {
			away, ends = away+f.End-f.Begin, f.End
			continue
		}
		if f.Begin < ends {
			during++
			if f.End > ends {
				atItsEnd++
			}
		}
		if f.Victim == workers[0] && !slices.Contains([]string{"pause", "connections cut", "slow link"}, f.Kind) {
			t.Errorf("%v, which requests to worker1 do not outlast", f)
		}
		for _, other := range all[max(0, i-40):i] {
			if other.End > f.Begin && slices.ContainsFunc(partsOf(t, other), func(p string) bool { return slices.Contains(partsOf(t, f), p) }) {
				t.Errorf("%v while %v", f, other)
			}
		}
	}
	if share := float64(away) / float64(cycles*outageCycle); share < 0.4 || share > 0.6 {
		t.Errorf("a majority is away for %.2f of the time", share)
	}
	if during < 10*cycles || atItsEnd < cycles/2 {
		t.Errorf("%d faults during %d outages, %d of them at their ends", during, cycles, atItsEnd)
	}
	for _, k := range outageKinds() {
		if !seen[k.name] {
			t.Errorf("no fault %q", k.name)
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
