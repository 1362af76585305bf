package nemesis

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/order"
)

func answer(kind Kind, tag string, sent, received time.Duration, ranges ...messages.Range) *Call {
	c := &Call{Kind: kind, Tag: tag, Sent: sent, Received: received, Ranges: ranges}
	for _, r := range ranges {
		c.Count += r.Len()
	}
	return c
}

func ids(first, last int64) messages.Range { return messages.Range{First: first, Last: last} }

func TestCheckerFinds(t *testing.T) {
	grants := []loads.Grant{
		{Instance: "a", Tag: "order", First: 1, End: 11}, {Instance: "b", Tag: "order", First: 11, End: 21}, {Instance: "a", Tag: "order", First: 21, End: 31},
	}
	for name, c := range map[string]struct {
		calls []*Call
		want  string // part of the violation; none if empty
	}{
		"nothing": {calls: []*Call{answer(Single, "order", 0, 1, ids(2, 2)), answer(Single, "order", 2, 3, ids(3, 3)), answer(Single, "user", 2, 3, ids(3, 3))}},
		"an ID twice": {
			[]*Call{answer(Batch, "order", 0, 1, ids(1, 5)), answer(Event, "order", 0, 2, ids(4, 4))}, "DUPLICATE",
		},
		"a snowflake ID twice":                   {[]*Call{answer(Snowflake, "", 0, 1, ids(77, 77)), answer(Snowflake, "", 0, 2, ids(77, 77))}, "DUPLICATE"},
		"a worker that went back":                {[]*Call{answer(Single, "order", 0, 1, ids(22, 22)), answer(Raw, "order", 2, 3, ids(3, 3))}, "NOT ASCENDING"},
		"another worker with lower IDs":          {calls: []*Call{answer(Single, "order", 0, 1, ids(22, 22)), answer(Raw, "order", 2, 3, ids(12, 12))}},
		"requests that overlapped":               {calls: []*Call{answer(Single, "order", 0, 3, ids(22, 22)), answer(Raw, "order", 2, 4, ids(3, 3))}},
		"IDs of two workers in one answer":       {[]*Call{answer(Batch, "order", 0, 1, ids(5, 15))}, "GRANTED TO TWO"},
		"a strict tag that went back":            {[]*Call{answer(Strict, "doc", 0, 1, ids(12, 12)), answer(Strict, "doc", 2, 3, ids(3, 3))}, "NOT ASCENDING"},
		"fewer IDs than asked for":               {[]*Call{{Kind: Single, Tag: "order", Received: 1, Count: 2, Ranges: []messages.Range{ids(1, 1)}}}, "NOT A REPLY"},
		"an ID below 1":                          {[]*Call{answer(Single, "order", 0, 1, ids(0, 0))}, "NOT A REPLY"},
		"a snowflake ID below one of its worker": {[]*Call{answer(Snowflake, "", 0, 1, ids(5<<22, 5<<22)), answer(Snowflake, "", 2, 3, ids(4<<22, 4<<22))}, "NOT ASCENDING"},
	} {
		t.Run(name, func(t *testing.T) {
			granted := new(Granted)
			for _, g := range grants {
				if err := granted.Add(g); err != nil {
					t.Fatal(err)
				}
			}
			checker := NewChecker(snowflake.Default(), granted)
			for _, call := range c.calls {
				checker.Check(call)
			}
			checker.Finish()
			found := strings.Join(checker.Violations(), "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

func TestGrantsThatOverlapAreFound(t *testing.T) {
	var g Granted
	for _, grant := range []loads.Grant{
		{Instance: "a", Tag: "order", First: 11, End: 21}, {Instance: "a", Tag: "order", First: 11, End: 21}, // read at two servers
		{Instance: "a", Tag: "order", First: 1, End: 11}, {Instance: "b", Tag: "order", First: 21, End: 31}, {Instance: "b", Tag: "user", First: 1, End: 11},
		{Instance: "b", Tag: "order", Refused: messages.CodeNoTag},
	} {
		if err := g.Add(grant); err != nil {
			t.Error(err)
		}
	}
	for _, grant := range []loads.Grant{{Instance: "b", Tag: "order", First: 11, End: 21}, {Instance: "a", Tag: "order", First: 15, End: 25}} {
		if g.Add(grant) == nil {
			t.Errorf("%+v overlaps, and there is no error", grant)
		}
	}
}

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

func TestHistoryIsReadAsItWasWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history.gz")
	h, err := CreateHistory(name)
	if err != nil {
		t.Fatal(err)
	}
	calls := []*Call{
		answer(Strict, "doc.a", 5, 7, ids(1, 3), ids(9, 9)), answer(Snowflake, "", 6, 8, ids(1<<40, 1<<40)),
		{Kind: Single, Tag: "order", Sent: 1, Received: 9, Count: 1, Err: "no ID\nbefore the deadline"}, answer(Strict, "doc.a", 9, 11, ids(2, 2)),
	}
	for _, c := range calls {
		h.Write(c)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	if err := ReadHistory(bytes.NewReader(data), func(c *Call) { read = append(read, c.String()) }); err != nil {
		t.Fatal(err)
	}
	if len(read) != len(calls) {
		t.Fatalf("%d calls read, %d written", len(read), len(calls))
	}
	for i, c := range calls {
		if read[i] != c.String() {
			t.Errorf("read %q, written was %q", read[i], c)
		}
	}
	checker, err := CheckHistory(bytes.NewReader(data), snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	if found := strings.Join(checker.Violations(), "\n"); !strings.Contains(found, "DUPLICATE") || !strings.Contains(found, "NOT ASCENDING") {
		t.Errorf("found %q", found)
	}
}

func TestHistogramIsRight(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * ms)
	}
	for share, want := range map[float64]time.Duration{0.5: 500 * ms, 0.99: 990 * ms, 0.999: 1000 * ms} {
		if got := h.at(share); got < want || got > want*5/4 {
			t.Errorf("at(%v) = %v, want %v", share, got, want)
		}
	}
}
