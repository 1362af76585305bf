package conformance

import (
	"slices"
	"testing"
)

// unitCases need the driver alone. What needs no clock either, such as reading a
// reply, is no case here: each client's own tests read vectors.json.
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
