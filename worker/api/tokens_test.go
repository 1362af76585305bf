package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/idworker/idworker/worker/api"
)

const (
	goodToken  = "AbCdEf-0123456789._~+/=="
	otherToken = "another-token-of-someone"
	longToken  = longPart + longPart + longPart + longPart // 256 bytes
	longPart   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	allToken   = "the-token-of-those-who-may-all"
)

// TestTokens: no ID is issued without a right, not even on Leaf's paths, and
// the source gets no request.
func TestTokens(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{Tokens: file(t, "# who may what\n\n"+goodToken+" order.* invoice @snowflake\n"+otherToken+"\tchat.> \r\n"+allToken+" >\n"+longToken+" invoice")})
	const segment, leaf = "/v1/segment/", "/api/segment/get/"
	for _, c := range []struct {
		path, authorization string
		status              int
	}{
		{segment + "order.de", "Bearer " + goodToken, 200},
		{segment + "order.de", "bEARER " + goodToken, 200},
		{segment + "%6frder.de", "Bearer " + goodToken, 200},
		{segment + "invoice", "Bearer " + goodToken, 200},
		{"/v1/snowflake", "Bearer " + goodToken, 200},
		{"/api/snowflake/get/x", "Bearer " + goodToken, 200},
		{leaf + "order.de", "Bearer " + goodToken, 200},
		{segment + "chat.a.b", "Bearer " + otherToken, 200},
		{segment + "invoice", "Bearer " + allToken, 200},

		{"/v1/snowflake", "Bearer " + allToken, 403}, // of all tags
		{segment + "order", "Bearer " + goodToken, 403},
		{segment + "order.de.x", "Bearer " + goodToken, 403},
		{segment + "Order.de", "Bearer " + goodToken, 403},
		{segment + "invoice.x", "Bearer " + goodToken, 403},
		{segment + "chat", "Bearer " + otherToken, 403},
		{segment + "nosuch", "Bearer " + goodToken, 403},
		{"/v1/snowflake", "Bearer " + otherToken, 403},
		{"/api/snowflake/get/chat.x", "Bearer " + otherToken, 403},
		{leaf + "order.de", "Bearer " + otherToken, 403},
		{segment + "order.*", "Bearer " + goodToken, 400},
		{segment + "chat.a/../../order.de", "Bearer " + otherToken, 400},
		{leaf + "chat.a/../order.de", "Bearer " + otherToken, 404},

		{segment + "invoice", "", 401},
		{"/v1/snowflake", "", 401},
		{leaf + "invoice", "", 401},
		{"/api/snowflake/get/x", "", 401},
		{segment + "invoice", "Bearer", 401},
		{segment + "invoice", "Bearer ", 401},
		{segment + "invoice", goodToken, 401},
		{segment + "invoice", "Basic " + goodToken, 401},
		{segment + "invoice", "Bearer\t" + goodToken, 401},
		{segment + "invoice", "Bearer  " + goodToken, 401},
		{segment + "invoice", "Bearer " + goodToken + " x", 401},
		{segment + "invoice", "Bearer " + goodToken + "," + goodToken, 401},
		{segment + "invoice", "Bearer " + strings.ToLower(goodToken), 401},
		{segment + "invoice", "Bearer " + goodToken + "\r\nAuthorization: Bearer " + goodToken, 401},
		{segment + "invoice", "Bearer " + otherToken + "\r\nAuthorization: Bearer " + goodToken, 401},
		{segment + "invoice", "Bearer " + strings.Repeat("x", 7000), 401},
		{segment + "invoice", "Bearer " + longToken, 200},
		{segment + "invoice", "Bearer " + longToken + "x", 401},
		{segment + "invoice?access_token=" + goodToken, "", 400},
	} {
		var headers []string
		if c.authorization != "" {
			headers = []string{"Authorization: " + c.authorization}
		}
		source.requests()
		got := exchange(t, s, get(c.path, headers...))
		asked := source.requests()
		if got.status != c.status || (len(asked) > 0) != (c.status == 200) {
			t.Errorf("%s with %.60q: %d, and the source was asked for %v; want %d", c.path, c.authorization, got.status, asked, c.status)
		}
		if challenge := got.header.Get("WWW-Authenticate"); (challenge != "") != (c.status == 401) {
			t.Errorf("%s: WWW-Authenticate %q", c.path, challenge)
		}
	}
	for n := range len(goodToken) {
		for _, near := range []string{goodToken[:n], goodToken[n:] + "x", goodToken[:n] + "X" + goodToken[n+1:]} {
			if got := exchange(t, s, get(segment+"invoice", "Authorization: Bearer "+near)); got.status != 401 {
				t.Errorf("%q: %d, want 401", near, got.status)
			}
		}
	}
	if asked := source.requests(); len(asked) > 0 {
		t.Errorf("the source was asked for %v", asked)
	}
}

// TestBadTokenFiles: the error names the line and the allowed values, and shows
// no token.
func TestBadTokenFiles(t *testing.T) {
	t.Parallel()
	const secret = "Secret-Secret-Secret-Secret"
	for text, want := range map[string]string{
		"":                                       "no tokens",
		"# " + secret + " >\n":                   "no tokens",
		secret:                                   "line 1: token without rights",
		"\n" + secret + " order.*x":              "line 2: malformed pattern",
		secret + " >.x":                          "line 1: malformed pattern",
		secret + " or/der":                       "line 1: malformed tag",
		secret + " @times":                       "line 1: malformed tag",
		"short-Secret >":                         "line 1: token of 12 bytes, allowed is 16 to 256",
		secret + strings.Repeat("x", 256) + " >": "allowed is 16 to 256",
		secret + "ü >":                           "line 1: invalid character in token",
		secret + "\x00 >":                        "line 1: invalid character in token",
		secret + " >\n" + secret + " order":      "line 2: duplicate token",
	} {
		_, err := api.ParseTokens([]byte(text))
		if !errors.Is(err, api.ErrTokens) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "Secret") {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
		if _, err := api.Open(t.Context(), api.Config{Address: "127.0.0.1:0", Tokens: file(t, text)}); !errors.Is(err, api.ErrTokens) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if _, err := api.Open(t.Context(), api.Config{Address: "127.0.0.1:0", Tokens: file(t, strings.Repeat("#", 1<<20+1))}); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := api.Open(t.Context(), api.Config{Address: "127.0.0.1:0", Tokens: "nosuch"}); err == nil {
		t.Error("a file that is not there was accepted")
	}
}
