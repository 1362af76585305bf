package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/worker/api"
)

// object is a part of the description.
type object = map[string]any

// TestDescriptionHolds: every described path, method and status has a request
// that gets it, and every reply matches the description: headers, type and
// body.
func TestDescriptionHolds(t *testing.T) {
	t.Parallel()
	tokens := file(t, goodToken+" > @snowflake\n"+otherToken+" invoice\n")
	s, _ := start(t, api.Config{Tokens: tokens})
	served := exchange(t, s, get("/v1/openapi.yaml"))
	written, err := os.ReadFile("openapi.yaml")
	if err != nil || served.status != 200 || served.body != string(written) {
		t.Fatalf("served: %d, %v", served.status, err)
	}
	var doc object
	if err := yaml.Unmarshal(written, &doc); err != nil {
		t.Fatal(err)
	}
	d := description{t, doc}

	const segment, snowflake = "/v1/segment/{tag}", "/v1/snowflake"
	right, wrong := "Authorization: Bearer "+goodToken, "Authorization: Bearer "+otherToken
	missing := d.statuses()
	for _, method := range []string{"GET", "POST"} {
		for _, c := range []struct {
			path, asked string
			status      int
			headers     []string
		}{
			{segment, "/v1/segment/order", 200, []string{right}},
			{segment, "/v1/segment/order?n=7", 200, []string{right}},
			{segment, "/v1/segment/order?n=7", 200, []string{right, "Accept: text/plain"}},
			{segment, "/v1/segment/order?n=x", 400, []string{right}},
			{segment, "/v1/segment/order?n=x", 400, []string{right, "Accept: text/plain"}},
			{segment, "/v1/segment/order", 401, nil},
			{segment, "/v1/segment/order", 403, []string{wrong}},
			{segment, "/v1/segment/nosuch", 404, []string{right}},
			{segment, "/v1/segment/order", 406, []string{right, "Accept: image/png"}},
			{segment, "/v1/segment/strict", 409, []string{right, "Ids-Prefetch: 1"}},
			{segment, "/v1/segment/order", 411, []string{right, "Transfer-Encoding: chunked"}},
			{segment, "/v1/segment/order", 413, []string{right, "Content-Length: 5000"}},
			{segment, "/v1/segment/busy", 429, []string{right}},
			{segment, "/v1/segment/away", 503, []string{right}},
			{segment, "/v1/segment/full", 507, []string{right}},
			{snowflake, "/v1/snowflake?n=2", 200, []string{right}},
			{snowflake, "/v1/snowflake", 200, []string{right, "Accept: text/plain"}},
			{snowflake, "/v1/snowflake?n=0", 400, []string{right}},
			{snowflake, "/v1/snowflake", 401, nil},
			{snowflake, "/v1/snowflake", 403, []string{wrong}},
			{snowflake, "/v1/snowflake", 406, []string{right, "Accept: image/png"}},
			{snowflake, "/v1/snowflake", 411, []string{right, "Transfer-Encoding: chunked"}},
			{snowflake, "/v1/snowflake", 413, []string{right, "Content-Length: 5000"}},
		} {
			got := exchange(t, s, ask(method, c.asked, c.headers...))
			if got.status != c.status {
				t.Errorf("%s %s %v: %+v, want %d", method, c.asked, c.headers, got, c.status)
				continue
			}
			d.check(method, c.path, got)
			delete(missing, fmt.Sprint(method, " ", c.path, " ", c.status))
		}
	}
	// An undescribed method has the same answers as the others.
	for _, path := range []string{segment, snowflake} {
		got := exchange(t, s, ask("PUT", strings.Replace(path, "{tag}", "order", 1), right))
		d.check("GET", path, got)
		delete(missing, "GET "+path+" 405")
		delete(missing, "POST "+path+" 405")
	}
	// From a source, as for tags.
	for _, code := range []string{"429", "503", "507"} {
		delete(missing, "GET "+snowflake+" "+code)
		delete(missing, "POST "+snowflake+" "+code)
	}
	if len(missing) > 0 {
		t.Errorf("described, and not seen: %v", slices.Sorted(maps.Keys(missing)))
	}
}

// description is the document, with the parts that a test looks up.
type description struct {
	t   *testing.T
	doc object
}

// statuses are all described replies.
func (d description) statuses() map[string]bool {
	all := make(map[string]bool)
	for path, methods := range d.doc["paths"].(object) {
		for method, op := range methods.(object) {
			if op, ok := op.(object); ok {
				for status := range op["responses"].(object) {
					all[fmt.Sprint(strings.ToUpper(method), " ", path, " ", status)] = true
				}
			}
		}
	}
	return all
}

// check compares a reply with its description.
func (d description) check(method, path string, got answer) {
	d.t.Helper()
	responses := d.follow(d.doc, "paths", path, strings.ToLower(method), "responses")
	response := d.resolve(responses[fmt.Sprint(got.status)])
	if response == nil {
		d.t.Errorf("%s %s: %d is not described", method, path, got.status)
		return
	}
	headers, _ := response["headers"].(object)
	for name, header := range headers {
		header := d.resolve(header)
		value := got.header.Get(name)
		if value == "" {
			d.t.Errorf("%s %s: %d without %s", method, path, got.status, name)
		}
		d.fits(value, header["schema"].(object))
	}
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	content, ok := response["content"].(object)[media].(object)
	if !ok {
		d.t.Errorf("%s %s: %d as %q is not described", method, path, got.status, media)
		return
	}
	var body any = got.body
	if media == "application/json" {
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			d.t.Error(err)
		}
	}
	d.fits(body, d.resolve(content["schema"]))
}

func (d description) follow(o object, path ...string) object {
	for _, key := range path {
		o, _ = o[key].(object)
	}
	return o
}

func (d description) resolve(part any) object {
	o, _ := part.(object)
	if ref, ok := o["$ref"].(string); ok {
		return d.follow(d.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return o
}

// fits checks a value against the part of JSON Schema that the description
// uses. Anything else in a schema is an error, so that everything described is
// checked.
func (d description) fits(value any, schema object) {
	d.t.Helper()
	bad := func(what string) { d.t.Helper(); d.t.Errorf("%.100v: %s, want %v", value, what, schema) }
	for key, want := range schema {
		switch key {
		case "type":
			kinds := map[string]bool{"string": false, "integer": false, "array": false, "object": false}
			switch v := value.(type) {
			case string:
				kinds["string"] = true
			case float64:
				kinds["integer"] = v == float64(int64(v))
			case []any:
				kinds["array"] = true
			case object:
				kinds["object"] = true
			}
			if !kinds[want.(string)] {
				bad("type")
			}
		case "const":
			if value != want {
				bad("value")
			}
		case "pattern":
			if !regexp.MustCompile(want.(string)).MatchString(value.(string)) {
				bad("pattern")
			}
		case "items":
			for _, item := range value.([]any) {
				d.fits(item, d.resolve(want))
			}
		case "minItems", "maxItems":
			if n := len(value.([]any)); key == "minItems" && n < want.(int) || key == "maxItems" && n > want.(int) {
				bad(key)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, there := value.(object)[name.(string)]; !there {
					bad("without " + name.(string))
				}
			}
		case "properties", "additionalProperties":
			for name, property := range value.(object) {
				described, there := schema["properties"].(object)[name]
				if !there {
					bad("with " + name)
				} else if key == "properties" {
					d.fits(property, d.resolve(described))
				}
			}
		case "description":
		default:
			bad("the test does not know " + key)
		}
	}
}
