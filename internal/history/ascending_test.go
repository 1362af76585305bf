package history

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/order"
)

// TestOrderAgreesWithAllPairs compares what is found online with testing/order, which has the whole history.
func TestOrderAgreesWithAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 14))
	bad := 0
	for range 2000 {
		var all []order.Call
		var online ascending
		found := false
		now := time.Duration(0)
		for next := int64(1); next < 40; next++ {
			now += time.Duration(1 + random.IntN(3))
			id := next * 1000
			if random.IntN(60) == 0 {
				id -= 5500 // below some, and never the same twice
			}
			c := answer(Strict, "doc", max(0, now-time.Duration(random.IntN(12))), now, ids(max(1, id), max(1, id)+1))
			found = online.add("doc", c) != nil || found
			begin := time.Unix(0, 0)
			all = append(all, order.Call{Tag: "doc", Sent: begin.Add(c.Sent), Received: begin.Add(c.Received), Count: c.Count, Ranges: c.Ranges})
		}
		err := order.Check(all)
		if wrong := err != nil && strings.Contains(err.Error(), "ASCENDING"); wrong != found {
			t.Fatalf("found online: %v; of all pairs: %v", found, err)
		}
		if found {
			bad++
		}
	}
	if bad < 100 || bad > 1900 {
		t.Errorf("%d of 2000 histories are out of order: that compares little", bad)
	}
}

// TestPartlyBelow: it is the lowest ID of an answer that has to be above those before it.
func TestPartlyBelow(t *testing.T) {
	var a ascending
	for _, c := range []struct {
		call *Call
		ok   bool
	}{
		{answer(Strict, "doc", 0, 1, ids(10, 12)), true},
		{answer(Strict, "doc", 2, 3, ids(5, 6), ids(20, 21)), false},
		{answer(Strict, "doc", 2, 4, ids(15, 16)), true}, // sent before 21 was there
		{answer(Strict, "doc", 4, 5, ids(19, 30)), false},
	} {
		if err := a.add("doc", c.call); c.ok != (err == nil) {
			t.Errorf("%v: %v", c.call, err)
		}
	}
}
