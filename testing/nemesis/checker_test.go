package nemesis

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
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
	grants := []loadmsg.Grant{
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
		"a strict tag that went back over HTTP":  {[]*Call{answer(Strict, "doc", 0, 1, ids(12, 12)), answer(HTTPStrict, "doc", 2, 3, ids(3, 3))}, "NOT ASCENDING"},
		"a strict tag that was back over HTTP":   {[]*Call{answer(HTTPStrict, "doc", 0, 1, ids(12, 12)), answer(Strict, "doc", 2, 3, ids(3, 3))}, "NOT ASCENDING"},
		"an ID twice over HTTP":                  {[]*Call{answer(HTTP, "order", 0, 1, ids(1, 5)), answer(HTTP, "order", 0, 2, ids(4, 4))}, "DUPLICATE"},
		"a worker that went back over HTTP":      {[]*Call{answer(Single, "order", 0, 1, ids(22, 22)), answer(HTTP, "order", 2, 3, ids(3, 3))}, "NOT ASCENDING"},
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
			checker := NewJudge(snowflake.Default(), granted)
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
	for _, grant := range []loadmsg.Grant{
		{Instance: "a", Tag: "order", First: 11, End: 21}, {Instance: "a", Tag: "order", First: 11, End: 21}, // read at two servers
		{Instance: "a", Tag: "order", First: 1, End: 11}, {Instance: "b", Tag: "order", First: 21, End: 31}, {Instance: "b", Tag: "user", First: 1, End: 11},
		{Instance: "b", Tag: "order", Refused: messages.CodeNoTag},
	} {
		if err := g.Add(grant); err != nil {
			t.Error(err)
		}
	}
	for _, grant := range []loadmsg.Grant{{Instance: "b", Tag: "order", First: 11, End: 21}, {Instance: "a", Tag: "order", First: 15, End: 25}} {
		if g.Add(grant) == nil {
			t.Errorf("%+v overlaps, and there is no error", grant)
		}
	}
}

// historyOf writes calls to a file, compressed or not, and returns its content.
func historyOf(t *testing.T, name string, calls ...*Call) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	h, err := history.Create(name, snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		h.Write(c)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryCallIsReadAsItWasWritten: of each kind, with an answer and without.
func TestEveryCallIsReadAsItWasWritten(t *testing.T) {
	for _, kind := range callerKinds {
		tag := "-"
		if kind == Snowflake {
			tag = ""
		}
		for _, c := range []*Call{answer(kind, tag, 5, 7, ids(1, 3), ids(9, 9)), {Kind: kind, Tag: tag, Received: 9, Count: 1, Err: "no ID - at all"}} {
			if read, err := parseCall(c.String()); err != nil || !reflect.DeepEqual(read, c) {
				t.Errorf("read %+v, %v; written was %+v", read, err, c)
			}
		}
	}
}

// TestHistoryAlone: a recorded history is checked alone, however it was
// altered.
func TestHistoryAlone(t *testing.T) {
	calls := []*Call{
		answer(Strict, "doc.a", 5, 7, ids(1, 3), ids(9, 9)), answer(Snowflake, "", 6, 8, ids(5<<22, 5<<22)),
		{Kind: Single, Tag: "order", Sent: 1, Received: 9, Count: 1, Err: "no ID"},
		answer(Strict, "doc.a", 9, 11, ids(10, 10)), answer(Snowflake, "", 10, 12, ids(6<<22, 6<<22)),
	}
	good, compressed := historyOf(t, "history", calls...), historyOf(t, "history.gz", calls...)
	for name, c := range map[string]struct{ old, doctored, want string }{
		"as it is":                  {"", "", ""},
		"compressed":                {good, compressed, ""},
		"compressed, cut off":       {good, compressed[:len(compressed)-1], "breaks off after line 6"},
		"an ID twice":               {"strict doc.a 9 11 1 10", "strict doc.a 9 11 1 3", "DUPLICATE: strict doc.a 9 11 1 3"},
		"a strict tag out of order": {"strict doc.a 9 11 1 10", "strict doc.a 9 11 1 8", "NOT ASCENDING: strict doc.a 9 11 1 8"},
		"a snowflake ID too low":    {"1 25165824", "1 4194304", "NOT ASCENDING: snowflake - 10 12 1 4194304"},
		"too few IDs":               {"strict doc.a 9 11 1 10", "strict doc.a 9 11 2 10", "NOT A REPLY"},
		"lines exchanged":           {"strict doc.a 9 11 1 10", "strict doc.a 5 6 1 10", "line 5: answered at 6, before the line above"},
		"a line cut":                {"strict doc.a 9 11 1 10", "strict doc.a", "line 5"},
		"no first line":             {"# idworker history", "# history", "its first line"},
		"the end cut off":           {"25165824\n", "25", "breaks off after line 5"},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			checker, err := CheckHistory(strings.NewReader(strings.Replace(good, c.old, c.doctored, 1)))
			if err != nil {
				found = []string{err.Error()}
			}
			if checker != nil {
				found = append(found, checker.Violations()...)
				if n, _ := checker.Counts(); n == 0 {
					t.Error("no ID was checked")
				}
			}
			if all := strings.Join(found, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}
