package e2e

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// object is what --json printed: one JSON object, and nothing beside it.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var found map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&found); err != nil || decoder.More() {
		t.Fatalf("%q is not one JSON object: %v", text, err)
	}
	return found
}

// at is what an object has at a path of names; a 0 is the first of a list.
func at(t *testing.T, found any, path string) any {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		switch in := found.(type) {
		case map[string]any:
			found = in[name]
		case []any:
			if len(in) == 0 {
				t.Fatalf("%s: an empty list", path)
			}
			found = in[0]
		}
	}
	return found
}

// TestJSON: every command that prints results prints them as JSON, too, under names that stay; IDs are
// strings.
func TestJSON(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	env := settings{env: []string{"NATS_URL=" + s.url}}
	for _, c := range []struct {
		line string
		want map[string]any // by path
	}{
		{"tag create order --step 10 --first 9007199254740993", map[string]any{"tag": "order", "step": 10., "first": "9007199254740993", "order": "trend", "created": true}},
		{"tag create order --if-missing", map[string]any{"tag": "order", "next": "9007199254740993", "created": false}},
		{"tag create s --order strict", map[string]any{"tag": "s", "order": "strict", "created": true}},
		{"tag create s --order strict --if-missing", map[string]any{"tag": "s", "order": "strict", "created": false}},
		{"tag create s --if-missing", map[string]any{"tag": "s", "order": "strict", "created": false}},
		{"tag create chat.* --template --max-tags 7", map[string]any{"pattern": "chat.*", "max_tags": 7., "created": true}},
		{"tag create chat.* --template --if-missing --max-tags 7", map[string]any{"pattern": "chat.*", "created": false}},
		{"get order", map[string]any{"tag": "order", "ids.0": "9007199254740993"}},
		{"get order 3 --ranges", map[string]any{"ranges.0.first": "9007199254740994", "ranges.0.last": "9007199254740996", "ids": nil}},
		{"get chat.1", map[string]any{"ids.0": "1"}},
		{"get --snowflake", map[string]any{"tag": nil}},
		{"tag ls", map[string]any{"tags.0.tag": "order", "tags.0.step": 10., "templates.0.pattern": "chat.*", "templates.0.tags": 1., "templates.0.first": "1"}},
		{"tag set order --step 20", map[string]any{"tag": "order", "step": 20., "order": nil}},
		{"tag set chat.* --step 5", map[string]any{"pattern": "chat.*", "step": 5.}},
		{"tag raise order --next 9007199254800001", map[string]any{"changes.0.tag": "order", "changes.0.next": "9007199254800001"}},
		{"tag export", map[string]any{"tags.0.tag": "chat.1", "templates.0.max_tags": 7.}},
		{"tag rm chat.1 --yes", map[string]any{"removed": "chat.1", "template": false}},
		{"provision", map[string]any{"resources.0.resource": "stream IDS_LOAD", "resources.0.result": "as it should be"}},
		{"doctor", map[string]any{"findings.0.what": "server", "findings.0.result": "ok"}},
		{"doctor --role caller", map[string]any{"findings.0.what": "server"}},
		{"workers", map[string]any{"workers.0.datacenter": 0., "layout": "41:1ms/w10/s12@1735689600000"}},
		{"decode 249720120715386945", map[string]any{"ids.0.id": "249720120715386945", "ids.0.worker": 34., "ends": "2094-09-07"}},
		{"version", map[string]any{"version": strings.TrimSpace(run(t, "--version").stdout)}},
	} {
		r := env.run(t, append(strings.Fields(c.line), "--json")...)
		if r.code != exitOK || r.stderr != "" {
			t.Errorf("%s: exit code %d, %s", c.line, r.code, r.stderr)
			continue
		}
		found := object(t, r.stdout)
		for path, want := range c.want {
			if have := at(t, found, path); !reflect.DeepEqual(have, want) {
				t.Errorf("%s: %s is %v, want %v, in\n%s", c.line, path, have, want, r.stdout)
			}
		}
	}
	list := env
	list.stdin = "order 20 9007199254900001\nshop 10 5\n"
	if r := list.run(t, "tag", "import", "--json"); r.code != exitOK || len(object(t, r.stdout)["changes"].([]any)) != 2 {
		t.Errorf("import: %+v", r)
	}
}

// TestJSONErrors: an error is JSON where the result would have been, with the exit code, on stderr.
func TestJSONErrors(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	env := settings{env: []string{"NATS_URL=" + s.url}}
	createTag(t, s.url, "order")
	for line, code := range map[string]int{
		"tag rm order":                     exitUsage, // nobody can be asked
		"get nosuch":                       exitNoTag,
		"get order -1":                     exitUsage,
		"get --turbo order":                exitUsage,
		"tag create a..b":                  exitUsage,
		"tag set nosuch --step 5":          exitNoTag,
		"tag rm nosuch --yes":              exitNoTag,
		"doctor --role caller --tag a..b":  exitUsage,
		"doctor --layout sonyflake":        exitFailure,
		"decode x":                         exitUsage,
		"get order --server 127.0.0.1:1":   exitTryLater,
		"tag ls --prefix nobody":           exitFailure,
		"tag raise --all --by 0":           exitUsage,
		"get --server nats://u:p@a order":  exitUsage,
		"tag ls --store mysql://u:p@tcp/x": exitUsage,
	} {
		r := env.run(t, append(strings.Fields(line), "--json")...)
		found := object(t, r.stderr)
		if r.code != code || found["exit_code"] != float64(code) || found["error"] == "" {
			t.Errorf("%s: exit code %d, want %d; stderr %s", line, r.code, code, r.stderr)
		}
	}
}

// TestGetMoreThanABatch: more IDs than workers give at once come in several requests, all of them once.
func TestGetMoreThanABatch(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--max-batch", "70")
	createTag(t, s.url, "order", "--step", "1000")
	env := settings{env: []string{"NATS_URL=" + s.url}}
	all := append(ids(t, env.run(t, "get", "order", "700")), ids(t, env.run(t, "get", "order", "701"))...)
	if slices.Sort(all); len(all) != 1401 || len(slices.Compact(all)) != 1401 {
		t.Errorf("%d IDs, some of them twice", len(all))
	}
	if flakes := ids(t, env.run(t, "get", "--snowflake", "200")); len(flakes) != 200 {
		t.Errorf("%d snowflake IDs, want 200", len(flakes))
	}
	// A tag that is used up in the middle: what there was is printed, and the error says how many.
	must(t, "tag", "create", "--server", s.url, "short", "--step", "100", "--first", "9223372036854775607")
	r := env.run(t, "get", "short", "300")
	if got := ids(t, r); r.code != exitExhausted || len(got) == 0 || len(got) >= 300 || !strings.Contains(r.stderr, "of 300 IDs are printed") {
		t.Errorf("exit code %d, %d IDs, %s", r.code, len(got), r.stderr)
	}
}
