package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/idworker/idworker/testing/vectors"
)

var argumentCases = []testCase{
	{name: "02 tags of vectors.json", run: func(t *testing.T, d *driver) {
		type tag struct {
			Tag        vectors.Bytes
			Error, Why string
		}
		all := vectors.Read[tag](t, vectorsFile, "tags")
		wantVectors(t, d, texts(all, func(c tag) []byte { return c.Tag }), func(c tag) (op, expected) {
			return op{"op": "tag", "tag": string(c.Tag)}, expected{why: c.Why, kind: c.Error}
		})
	}},
	{name: "02 prefixes of vectors.json", run: func(t *testing.T, d *driver) {
		type prefix struct {
			Prefix     vectors.Bytes
			Error, Why string
		}
		all := vectors.Read[prefix](t, vectorsFile, "prefixes")
		wantVectors(t, d, texts(all, func(c prefix) []byte { return c.Prefix }), func(c prefix) (op, expected) {
			return op{"op": "prefix", "prefix": string(c.Prefix)}, expected{why: c.Why, kind: c.Error}
		})
	}},
	{name: "02 counts of vectors.json", run: func(t *testing.T, d *driver) {
		type count struct {
			N          string
			Body       vectors.Bytes
			Error, Why string
		}
		wantVectors(t, d, vectors.Read[count](t, vectorsFile, "counts"), func(c count) (op, expected) {
			return op{"op": "count", "n": c.N}, expected{why: c.Why, n: c.N, kind: c.Error, body: c.Body}
		})
	}},
	{name: "02 opaque IDs and numbers of vectors.json", run: sealsAndNumbers},
	{name: "02 what a driver does not know", run: func(t *testing.T, d *driver) {
		for _, o := range []op{
			{"op": "nothing"},
			{"op": "hello", "client": "a"},
			{"op": "tag", "tag": "order", "tags": "order"},
			{"op": "next", "client": "never made", "tag": "order"},
			{"op": "take", "name": "never made"},
		} {
			if r := d.do(t, o); r.kind() != "driver" {
				t.Errorf("%v: %v", o, r)
			}
		}
	}},
}

// texts drops cases that are not UTF-8: tags and prefixes are strings.
func texts[C any](all []C, text func(C) []byte) (valid []C) {
	for _, c := range all {
		if utf8.Valid(text(c)) {
			valid = append(valid, c)
		}
	}
	return valid
}

// sealsAndNumbers: a client checks all opaque IDs and numbers of documents of
// vectors.json, and none fails.
func sealsAndNumbers(t *testing.T, d *driver) {
	data, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Opaque struct {
			Keys            map[string]any
			Seal, Open, Bad []any
			BadKeys         []any `json:"bad_keys"`
		}
		Numbers struct{ Cases []any }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	r := d.must(t, op{"op": "vectors", "file": path})
	for _, failed := range r.Failed {
		t.Error(failed)
	}
	o := file.Opaque
	opaque, numbers := len(o.Keys)+len(o.Seal)+len(o.Open)+len(o.Bad)+len(o.BadKeys), len(file.Numbers.Cases)
	if r.Cases["opaque"] != opaque || r.Cases["numbers"] != numbers {
		t.Errorf("%v cases, want %d of opaque IDs and %d of numbers", r.Cases, opaque, numbers)
	}
}
