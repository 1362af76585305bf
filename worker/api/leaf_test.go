package api_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/worker/api"
)

// number matches any timestamp in the recorded answers of Leaf's server.
var number = regexp.MustCompile(`[0-9]{13}`)

// TestLeafsAnswers compares, path by path, the recorded answers of Leaf's own
// server (1.0.1) with those of this server: status, type, length, body byte by
// byte except for the time, and whether the connection stays open.
func TestLeafsAnswers(t *testing.T) {
	t.Parallel()
	// Leaf's own.
	layout, err := snowflake.ParseLayout("41:1ms/w10/s12@1288834974657")
	if err != nil {
		t.Fatal(err)
	}
	s, source := start(t, api.Config{Layout: layout})
	source.next.Store(18_400_000)
	failed := func(message, path string) string {
		return `{"timestamp":1795288518675,"status":500,"error":"Internal Server Error","exception":"com.sankuai.inf.leaf.server.exception.LeafServerException","message":"` +
			message + `","path":"` + path + `"}`
	}
	missing := func(path string) string {
		return `{"timestamp":1795288518675,"status":404,"error":"Not Found","message":"No message available","path":"` + path + `"}`
	}
	// In the server's zone, as Leaf does.
	zone := time.UnixMilli(1348381915376).Format("2006-01-02 15:04:05.000")
	const text, object = "text/plain;charset=UTF-8", "application/json;charset=UTF-8"
	const noKey, noIDs = "Result{id=-2, status=EXCEPTION}", "Result{id=-3, status=EXCEPTION}"
	for _, c := range []struct {
		method, path      string
		status            int
		contentType, body string
		closed            bool
	}{
		{"GET", "/api/segment/get/order", 200, text, "18400001", false},
		{"POST", "/api/segment/get/order", 200, text, "18400002", false},
		{"GET", "/api/segment/get/order?n=5", 200, text, "18400003", false},
		{"GET", "/api/segment/get/nosuch", 500, object, failed(noKey, "/api/segment/get/nosuch"), true},
		{"GET", "/api/segment/get/@snowflake", 500, object, failed(noKey, "/api/segment/get/@snowflake"), true},
		{"GET", "/api/segment/get/or%20der", 500, object, failed(noKey, "/api/segment/get/or%20der"), true},
		{"GET", "/api/segment/get/away", 500, object, failed(noIDs, "/api/segment/get/away"), true},
		{"GET", "/api/segment/get/full", 500, object, failed(noIDs, "/api/segment/get/full"), true},
		{"GET", "/api/segment/get/", 404, object, missing("/api/segment/get/"), false},
		{"GET", "/api/segment/get/order/more", 404, object, missing("/api/segment/get/order/more"), false},
		{"GET", "/api/snowflake/get/anything", 200, text, "18400004", false},
		{"POST", "/api/snowflake/get/@", 200, text, "18400005", false},
		{"GET", "/api/snowflake/get/", 404, object, missing("/api/snowflake/get/"), false},
		{"GET", "/decodeSnowflakeId?snowflakeId=249757971645747278", 200, object,
			`{"workerId":"69","sequenceId":"78","timestamp":"1348381915376(` + zone + `)"}`, false},
		{"GET", "/decodeSnowflakeId?snowflakeId=abc", 200, object,
			`{"errorMsg":"snowflake: malformed ID: \"abc\", allowed is a decimal from 1 to 9223372036854775807"}`, false},
	} {
		got := exchange(t, s, ask(c.method, c.path, "Content-Length: 0"))
		same := number.ReplaceAllString(got.body, "#") == number.ReplaceAllString(c.body, "#")
		if got.status != c.status || got.header.Get("Content-Type") != c.contentType || !same || got.closed != c.closed ||
			got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) {
			t.Errorf("%s %s:\n%+v\nwant\n%+v", c.method, c.path, got, c)
		}
	}
}

// TestLeafBeforeTheStart: Leaf reports that it is not initialised yet.
func TestLeafBeforeTheStart(t *testing.T) {
	t.Parallel()
	s, err := api.Open(t.Context(), api.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	for _, path := range []string{"/api/segment/get/order", "/api/snowflake/get/x"} {
		if got := exchange(t, s, get(path)); got.status != 500 || !regexp.MustCompile(`"Result\{id=-1, `).MatchString(got.body) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := exchange(t, s, get("/v1/segment/order")); got.status != 503 || got.header.Get("Retry-After") != "1" || got.closed {
		t.Errorf("%+v", got)
	}
}

// TestLeafsClientsThatWantJSON: a client that accepts JSON before text gets the
// same bare number, as JSON.
func TestLeafsClientsThatWantJSON(t *testing.T) {
	t.Parallel()
	s, _ := start(t, api.Config{})
	for accept, want := range map[string]string{
		"application/json, application/*+json": "application/json;charset=UTF-8",
		"application/json, text/plain, */*":    "application/json;charset=UTF-8",
		"text/plain, application/json, */*":    "text/plain;charset=UTF-8",
		"*/*":                                  "text/plain;charset=UTF-8",
		"text/html, image/gif, */*; q=.2":      "text/plain;charset=UTF-8",
		"image/png":                            "text/plain;charset=UTF-8",
	} {
		got := exchange(t, s, get("/api/segment/get/order", "Accept: "+accept))
		if _, err := strconv.Atoi(got.body); got.header.Get("Content-Type") != want || err != nil {
			t.Errorf("%s: %+v, want %s", accept, got, want)
		}
	}
}
