package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// field returns the value at a path of names; a 0 is the first item of a list.
func field(found any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch in := found.(type) {
		case map[string]any:
			found = in[name]
		case []any:
			if len(in) == 0 {
				return "an empty list"
			}
			found = in[0]
		}
	}
	return found
}

// matches compares a value with the wanted value, whose … matches any end.
func matches(have, want any) bool {
	if beginning, ok := want.(string); ok && strings.HasSuffix(beginning, "…") {
		text, ok := have.(string)
		return ok && strings.HasPrefix(text, strings.TrimSuffix(beginning, "…"))
	}
	return reflect.DeepEqual(have, want)
}

// TestJSON: every command that prints results also prints JSON, with stable
// names. IDs are strings.
func TestJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	list := writeFile(t, "order 20 9007199254900001\nshop 10 5\n")
	for _, c := range []struct {
		line string
		want map[string]any // by path
	}{
		{"tag create order --step 10 --first 9007199254740993", map[string]any{"tag": "order", "step": 10., "first": "9007199254740993", "order": "trend", "created": true}},
		{"tag create order --if-missing", map[string]any{"tag": "order", "next": "9007199254740993", "created": false}},
		{"tag create s --order strict", map[string]any{"tag": "s", "order": "strict", "created": true}},
		{"tag create s --if-missing", map[string]any{"tag": "s", "order": "strict", "created": false}},
		{"tag create chat.* --template --max-tags 7", map[string]any{"pattern": "chat.*", "max_tags": 7., "created": true}},
		{"tag create chat.* --template --if-missing --max-tags 7", map[string]any{"pattern": "chat.*", "created": false}},
		// A retried request may cost IDs.
		{"get order", map[string]any{"tag": "order", "ids.0": "9007199254…"}},
		{"get order 3 --ranges", map[string]any{"ranges.0.first": "9007199254…", "ranges.0.last": "9007199254…", "ids": nil}},
		{"get chat.1", map[string]any{"tag": "chat.1"}},
		{"tag create z.* --template --dated yy --order strict", map[string]any{"pattern": "z.*", "dated": "yy"}},
		{"get --number B{yy}{seq:3} --at 1999-12-31T23:30:00-01:00 --zone Europe/Paris z", map[string]any{"tag": "z.00", "numbers.0": "B00…"}},
		{"get --snowflake", map[string]any{"tag": nil}},
		{"get order --text ord --opaque " + writeFile(t, opaqueKeys), map[string]any{"ids.0": "9007199254…", "opaque.0": "ord_1…"}},
		{"tag ls", map[string]any{"tags.0.tag": "order", "tags.0.step": 10., "templates.0.pattern": "chat.*", "templates.0.tags": 1., "templates.0.first": "1"}},
		{"tag set order --step 20", map[string]any{"tag": "order", "step": 20., "order": nil}},
		{"tag set chat.* --step 5", map[string]any{"pattern": "chat.*", "step": 5.}},
		{"tag raise order --next 9007199254800001", map[string]any{"changes.0.tag": "order", "changes.0.next": "9007199254800001"}},
		{"tag export", map[string]any{"tags.0.tag": "chat.1", "templates.0.max_tags": 7.}},
		{"tag import " + list, map[string]any{"changes.0.tag": "order", "changes.0.next": "9007199254900001"}},
		{"tag rm chat.1 --yes", map[string]any{"removed": "chat.1", "template": false, "workers_told": true}},
		{"provision", map[string]any{"resources.0.resource": "stream IDS_LOAD", "resources.0.result": "as it should be"}},
		{"doctor", map[string]any{"findings.0.what": "server", "findings.0.result": "ok"}},
		{"doctor --role caller", map[string]any{"findings.0.what": "server"}},
		{"workers", map[string]any{"workers.0.datacenter": 0., "workers.0.state": "held", "waits": nil, "layout": "41:1ms/w10/s12@1735689600000"}},
	} {
		r := s.answered(c.line, "--json")
		found := object(t, r.stdout)
		for path, want := range c.want {
			if have := field(found, path); r.stderr != "" || !matches(have, want) {
				t.Errorf("%s: %s is %v, want %v, in\n%s%s", c.line, path, have, want, r.stdout, r.stderr)
			}
		}
	}
	decoded := object(t, s.run("decode", "249720120715386945", "--json").stdout)
	if field(decoded, "ids.0.id") != "249720120715386945" || field(decoded, "ids.0.worker") != 34. || field(decoded, "ends") != "2094-09-07" {
		t.Errorf("decode: %v", decoded)
	}
	jsonErrors(s)
}

// jsonErrors: an error is JSON on stderr, with the exit code, whatever its
// cause.
func jsonErrors(s *site) {
	for line, code := range map[string]int{
		// Cannot prompt.
		"tag rm order --server " + s.url:              exitUsage,
		"get nosuch --server " + s.url:                exitNoTag,
		"get --turbo order":                           exitUsage,
		"doctor --layout sonyflake --server " + s.url: exitFailure,
		"decode x":                         exitUsage,
		"get order --server 127.0.0.1:1":   exitTryLater,
		"get --server nats://u:p@a order":  exitUsage,
		"tag ls --store mysql://u:p@tcp(x": exitUsage,
	} {
		r := s.run(append(strings.Fields(line), "--json")...)
		found := object(s.T, r.stderr)
		if r.code != code || found["exit_code"] != float64(code) || found["error"] == "" {
			s.Errorf("%s: exit code %d, want %d; stderr %s", line, r.code, code, r.stderr)
		}
	}
}

// TestNumbersRunOutWithAClearError uses up tags that begin just below 2^63.
func TestNumbersRunOutWithAClearError(t *testing.T) {
	t.Parallel()
	page := freeport.Address(t)
	s := newSite(t, "--max-step", "10", "--max-batch", "10", "--http", page)
	const first = math.MaxInt64 - 30
	s.must("tag create last --step 5 --max-step 10 --first 9223372036854775777")
	last, exhausted := int64(first-1), result{}
	natstest.Eventually(t, "it is used up", func() bool {
		exhausted = s.at("get last")
		if exhausted.code == exitOK {
			id := s.ids(exhausted.stdout)[0]
			if id <= last {
				t.Fatalf("ID %d after %d", id, last)
			}
			last = id
		}
		return exhausted.code == exitExhausted
	})
	if exhausted.stdout != "" {
		t.Errorf("after the last ID: %+v", exhausted)
	}
	// Less than a step, unless requests were sent again.
	t.Logf("the last ID was %d below the end", math.MaxInt64-last)
	// A retried request may have used up the tag's only ID.
	end, tries := "", 0
	natstest.Eventually(t, "the very last ID", func() bool {
		tries++
		end = fmt.Sprintf("end%d", tries)
		s.must("tag create " + end + " --first 9223372036854775806 --step 1")
		r := s.at("get " + end)
		if r.code == exitOK && r.stdout != "9223372036854775806\n" {
			t.Fatalf("the very last ID: %+v", r)
		}
		return r.code == exitOK
	})
	for range 3 {
		for _, line := range []string{"get last", "get " + end} {
			if r := s.at(line); r.code != exitExhausted || r.stdout != "" || !strings.Contains(r.stderr, "exhausted") {
				t.Errorf("%s of a tag that is used up: %+v, want exit code %d", line, r, exitExhausted)
			}
		}
	}
	for _, line := range []string{"tag ls", "status", "doctor"} {
		natstest.Eventually(t, line+" names the exhausted tag", func() bool {
			for text := range strings.Lines(s.at(line).stdout) {
				if strings.Contains(text, "last") && strings.Contains(text, "exhausted") {
					return true
				}
			}
			return false
		})
	}
	if metrics := fetch(page, "/metrics"); !strings.Contains(metrics, fmt.Sprintf("state=\"exhausted\"} %d\n", 1+tries)) {
		t.Errorf("metrics have no exhausted tags:\n%s", metrics)
	}
	// If a tag is used up halfway, the IDs before that are printed, and the
	// error has their number.
	s.must("tag create short --step 10 --first 9223372036854775607")
	s.answered("get short")
	natstest.Eventually(t, "it is used up in the middle", func() bool {
		r := s.at("get short 300")
		if n := len(s.ids(r.stdout)); r.code == exitExhausted && (n == 0 || n >= 300 || !strings.Contains(r.stderr, " of 300 IDs")) {
			t.Errorf("%d IDs, %s", n, r.stderr)
		}
		return r.code == exitExhausted
	})
}

// TestCountersOnlyMoveUp: every command moves counters up and never down. A
// removed tag returns above its last ID.
func TestCountersOnlyMoveUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("tag create order --step 10")
	s.must("tag create invoice --step 10 --first 77")
	says := func(line, want string) {
		t.Helper()
		if out := s.must(line); strings.TrimSpace(out) != want {
			t.Errorf("idworker %s: %q, want %q", line, out, want)
		}
	}
	says("tag raise order --next 5000", "tag order: next ID 5000, was 1")
	says("tag raise order --next 50", "tag order: next ID 5000, unchanged")
	says("tag raise order --by 100", "tag order: next ID 5100, was 5000")
	if out := s.must("tag raise --all --by 1000"); !strings.HasPrefix(out, "raising 2 tags by 1000\n") ||
		!strings.HasSuffix(out, "\ntag invoice: next ID 1077, was 77\ntag order: next ID 6100, was 5100\nraised; tags created from now on begin at 1001\n") {
		t.Errorf("raise: %q", out)
	}
	exports := func(want string) {
		t.Helper()
		if out := s.must("tag export"); !strings.HasPrefix(out, "floor 1001 20") || !strings.HasSuffix(out, "Z\n"+want+"\n") {
			t.Errorf("export: %q, want %q after the floor", out, want)
		}
	}
	exports("invoice 10 1077\norder 10 6100")
	if id := s.ids(s.answered("get order").stdout)[0]; id < 6100 {
		t.Errorf("ID %d after a raise to 6100", id)
	}
	if out := s.must("tag import", writeFile(t, "# comment\n\norder 99 7000\ninvoice 10 5\nshop 20 300\n")); !strings.HasPrefix(out, "tag invoice: next ID 1077, unchanged\ntag order: next ID 7000, was 61") ||
		!strings.HasSuffix(out, "\ncreated tag shop: next ID 1001\n") {
		t.Errorf("import: %q", out)
	}
	exports("invoice 10 1077\norder 10 7000\nshop 20 1001")
	says("tag rm order --yes", "removed tag order; workers were notified, and disconnected ones use up their buffers")
	if r := s.at("tag create order --first 1"); r.code != exitUsage || !strings.Contains(r.stderr, "have issued IDs below 7000") {
		t.Errorf("create again: %+v", r)
	}
	if r := s.at("tag rm order --yes"); r.code != exitNoTag {
		t.Errorf("rm again: %+v", r)
	}
	says("tag create order", "created tag order: step 1000, first ID 7000, because a tag of that name may have issued those below")
}
