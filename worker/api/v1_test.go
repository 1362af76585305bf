package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker/api"
)

// TestIDs: IDs come as JSON, singly and as strings, or in the form of NATS.
func TestIDs(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{})
	source.next.Store(1<<62 - 1)
	next := int64(1 << 62)
	for _, path := range []string{"/v1/segment/order.de", "/v1/snowflake"} {
		for _, n := range []int64{1, 2, 3, 100, 10_000} {
			query := fmt.Sprintf("?n=%d", n)
			if n == 1 {
				query = ""
			}
			got := exchange(t, s, get(path+query, "Accept: application/json"))
			ids := idsOf(t, got.body)
			if got.status != 200 || got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-store" ||
				got.header.Get("Content-Length") == "" || int64(len(ids)) != n || ids[0] != next || ids[n-1] != next+n-1 || !slices.IsSorted(ids) {
				t.Errorf("%s%s: %d IDs, %.200v", path, query, len(ids), got)
			}
			next += n
			got = exchange(t, s, get(path+query, "Accept: text/plain"))
			ranges, err := messages.DecodeRanges([]byte(got.body), n)
			if got.status != 200 || got.header.Get("Content-Type") != "text/plain; charset=utf-8" || err != nil || ranges[0].First != next {
				t.Errorf("%s%s as text: %.200v, %v", path, query, got, err)
			}
			next += n
		}
	}
}

// TestTraceparent: the source gets the caller's trace, under each path that has
// IDs, and nothing that is no trace.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{})
	var want []string
	for _, path := range []string{"/v1/segment/order", "/v1/snowflake", "/api/segment/get/order", "/api/snowflake/get/x"} {
		for _, c := range []struct{ headers, trace string }{
			{"traceparent: 00-a-b-01", "00-a-b-01"}, {"TraceParent:00-a-b-01", "00-a-b-01"}, {"Tracestate: a=b", ""},
			{"Traceparent: a b", ""}, {"Traceparent: a\r\nTraceparent: a", ""}, {"Traceparent: " + strings.Repeat("x", 257), ""},
		} {
			if got := exchange(t, s, get(path, c.headers)); got.status != 200 {
				t.Errorf("%s with %q: %.200v", path, c.headers, got)
			}
			want = append(want, c.trace)
		}
	}
	if !slices.Equal(source.traces, want) {
		t.Errorf("traces %q, want %q", source.traces, want)
	}
}

// TestRefusals: the status reflects the fault of a request, and the text names
// the allowed values. A refused request costs no ID.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{})
	const order = "/v1/segment/order"
	for _, c := range []struct {
		request string
		status  int
		text    string
	}{
		{get(order + "?n=0"), 400, "malformed count"},
		{get(order + "?n=%20" + "1"), 400, "malformed count"},
		{get(order + "?n=+1"), 400, "malformed count"},
		{get(order + "?n="), 400, "malformed count"},
		{get(order + "?n"), 400, "malformed count"},
		{get(order + "?n=1&n=2"), 400, "malformed count"},
		{get(order + "?n=10001"), 400, "allowed as application/json are 10000"},
		{get(order+"?n=20001", "Accept: text/plain"), 400, "decimal from 1 to 20000"},
		{get(order + "?count=5"), 400, `unknown parameter "count", allowed is n`},
		{get(order + "?n=1;n=2"), 400, "malformed query"},
		{get(order + "?n=%zz"), 400, "malformed query"},
		{get("/v1/segment/"), 400, "malformed tag"},
		{get("/v1/segment/order/"), 400, "malformed tag"},
		{get("/v1/segment//order"), 400, "malformed tag"},
		{get("/v1/segment/../order"), 400, "malformed tag"},
		{get("/v1/segment/%2e%2e/order"), 400, "malformed tag"},
		{get("/v1/segment/or%2fder"), 400, "malformed tag"},
		{get("/v1/segment/or%00der"), 400, "malformed tag"},
		{get("/v1/segment/@snowflake"), 400, "malformed tag"},
		{get("/v1/segment/" + strings.Repeat("x", 129)), 400, "allowed is 1 to 128"},
		{get("/v1/snowflake?n=0"), 400, "malformed count"},
		{get("/v1/segment/nosuch"), 404, "no such tag"},
		{get("/"), 404, "no such path"},
		{get("//v1/segment/order"), 404, "no such path"},
		{get("/v1//segment/order"), 404, "no such path"},
		{get("/v1/../v1/segment/order"), 404, "no such path"},
		{get("/V1/segment/order"), 404, "no such path"},
		{get("/v1/snowflake/"), 404, "no such path"},
		{get("/v1"), 404, "no such path"},
		{get("*"), 404, "no such path"},
		{ask("OPTIONS", "*"), 404, "no such path"},
		{ask("DELETE", order), 405, "allowed are GET and POST"},
		{ask("get", order), 405, "allowed are GET and POST"},
		{get(order, "Accept: application/xml"), 406, "application/json and text/plain"},
		{get("/v1/segment/strict", "Ids-Prefetch: 1"), 409, "strict"},
		{ask("POST", order, "Transfer-Encoding: chunked") + "0\r\n\r\n", 411, "Content-Length"},
		{ask("POST", order, "Content-Length: 4097") + strings.Repeat("x", 4097), 413, "4096 bytes"},
		{get("/v1/segment/busy"), 429, "too many"},
		{get("/v1/segment/away"), 503, "no ID"},
		{get("/v1/segment/full"), 507, "used up"},
		{get(order, "Sec-Fetch-Site: cross-site"), 403, "another site"},
		{get(order, "Origin: http://elsewhere"), 403, "another site"},
		{get(order, "Origin: http://localhost:81"), 403, "another site"},
		{get(order, "Origin: null"), 403, "another site"},
		{get("/v1/segment/odd"), 503, "no error (200)"},
	} {
		got := exchange(t, s, c.request)
		var body struct {
			Code  int
			Error string
		}
		if got.status != c.status || !strings.Contains(strings.ReplaceAll(got.body, `\"`, `"`), c.text) {
			t.Errorf("%.120q:\n%+v, want %d %s", c.request, got, c.status, c.text)
		}
		if got.header.Get("Content-Type") == "application/json" && (json.Unmarshal([]byte(got.body), &body) != nil || body.Code != c.status) {
			t.Errorf("%.120q: %s", c.request, got.body)
		}
		if again := got.header.Get("Retry-After"); (again != "") != (c.status == 429 || c.status == 503) {
			t.Errorf("%.120q: Retry-After %q", c.request, again)
		}
	}
	if used := source.next.Load(); used != 0 {
		t.Errorf("%d IDs were used up", used)
	}
}

// TestTolerated: unusual but clear requests are answered.
func TestTolerated(t *testing.T) {
	t.Parallel()
	s, _ := start(t, api.Config{})
	for i, request := range []string{
		get("/v1/segment/order?"),
		get("/v1/segment/order?n=%31"),
		get("/v1/segment/%6Frder"),
		get("http://localhost:81/v1/segment/order"),
		get("/v1/segment/order", "Origin: http://localhost"),
		ask("POST", "/v1/segment/order", "Content-Length: 3") + "a=b",
		get("/v1/segment/order", "Sec-Fetch-Site: none"),
		get("/v1/segment/order", "Accept: application/json;q=0.2, text/*;q=0.1"),
		get("/v1/segment/order", "Accept: text/html", "Accept: */*;q=0.1"),
	} {
		got := exchange(t, s, request)
		if ids := idsOf(t, got.body); got.status != 200 || len(ids) != 1 || ids[0] != int64(i+1) {
			t.Errorf("%q: %+v", request, got)
		}
	}
}

// TestNamesOfOthers: where only programs of this machine may send requests, a
// page cannot do so under its own name for this machine, on any path. Callers
// with a token may use any name for the server, and so may all callers of a
// public server.
func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	tokens := file(t, goodToken+" > @snowflake")
	own, _ := os.Hostname()
	alone, source := start(t, api.Config{Hosts: []string{"Ids.Example"}})
	var open []*api.Server
	for _, cfg := range []api.Config{{Tokens: tokens}, {Exposed: true}} {
		s, _ := start(t, cfg)
		open = append(open, s)
	}
	for _, host := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "10.0.0.1", own + ":8080", "ids.example"} {
		if got := exchange(t, alone, "GET /v1/segment/order HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); got.status != 200 {
			t.Errorf("%s: %+v", host, got)
		}
	}
	source.requests()
	for _, host := range []string{"evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "1.2.3.4.5", ""} {
		for _, path := range []string{"/v1/segment/order", "/v1/snowflake", "/api/segment/get/order", "/api/snowflake/get/x", "/decodeSnowflakeId?snowflakeId=1", "/v1/openapi.yaml"} {
			request := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + goodToken + "\r\n\r\n"
			if got := exchange(t, alone, request); host != "" && (got.status != 403 || len(source.requests()) > 0) {
				t.Errorf("%s%s: %+v", host, path, got)
			}
			for i, s := range open {
				if got := exchange(t, s, request); got.status != 200 {
					t.Errorf("%s%s, open %d: %+v", host, path, i, got)
				}
			}
		}
	}
}
