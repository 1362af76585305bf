package conformance

import (
	"slices"
	"testing"
)

// unitCases need the driver alone. No case repeats vectors.json, which each
// client's own tests read.
var unitCases = slices.Concat(
	clockCases,
	[]testCase{{name: "02 what a driver does not know", run: unknownToDriver}},
)

func unknownToDriver(t *testing.T, d *driver) {
	for _, o := range []op{
		{"op": "nothing"},
		{"op": "hello", "client": "a"},
		{"op": "cancel", "call": 1, "calls": 1},
		{"op": "next", "client": "never made", "tag": "order"},
		{"op": "take", "name": "never made"},
	} {
		if r := d.do(t, o); r.kind() != "driver" {
			t.Errorf("%v: %v", o, r)
		}
	}
}
