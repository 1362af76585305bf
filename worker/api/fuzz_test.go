package api

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idworker/idworker/internal/httpguard"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// strictSource fails the test if it gets a request without a right.
type strictSource struct {
	t       *testing.T
	allowed func(what string) bool
	asked   int
}

func (s *strictSource) Segment(_ context.Context, tag string, count []byte, _ bool, _ string) ([]byte, error) {
	if err := messages.CheckTag(tag); err != nil {
		s.t.Errorf("the source is asked for %q: %v", tag, err)
	}
	return s.take(tag, count)
}

func (s *strictSource) Snowflake(_ context.Context, count []byte, _ string) ([]byte, error) {
	return s.take(Times, count)
}

func (s *strictSource) take(what string, count []byte) ([]byte, error) {
	s.asked++
	if !s.allowed(what) {
		s.t.Errorf("the source is asked for %q without right", what)
	}
	n, err := messages.DecodeCount(count, 1000)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeMalformed, Text: err.Error()}
	}
	return messages.AppendRange(nil, messages.Range{First: 1, Last: n}), nil
}

// FuzzRequest sends any request to a server with tokens. The answer has a
// counted status, no cache may keep it, no IDs are issued without a right, and
// each reply has exactly the IDs of the source.
func FuzzRequest(f *testing.F) {
	const token = "0123456789abcdef"
	for _, seed := range []string{
		"GET /v1/segment/order.de?n=5 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nAccept: text/plain;q=0.3, */*\r\n\r\n",
		"POST /v1/snowflake?n=%31 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 3\r\n\r\nabc",
		"GET /v1/segment/%6frder.de?n=1&n=2 HTTP/1.1\r\nHost: x\r\nauthorization: bearer " + token + "\r\n\r\n",
		"GET /api/segment/get/order.de HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nAccept: application/json\r\n\r\n",
		"GET /api/segment/get/../order.de HTTP/1.0\r\nAuthorization: Bearer " + token + "\r\n\r\n",
		"GET /api/snowflake/get/x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /decodeSnowflakeId?snowflakeId=249757971645747278 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://y/v1/openapi.yaml HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"CONNECT order.de:1 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add(seed)
	}
	tokens, err := ParseTokens([]byte(token + " order.* invoice\nfedcba9876543210 @snowflake"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, request string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			return // net/http refuses the request
		}
		// An independent implementation of the rights.
		rights := func(what string) bool {
			switch said := strings.Join(r.Header.Values("Authorization"), "\n"); {
			case len(said) != 7+16 || !strings.EqualFold(said[:7], "bearer "):
				return false
			case said[7:] == token:
				return what == "invoice" || strings.HasPrefix(what, "order.") && strings.Count(what, ".") == 1
			default:
				return said[7:] == "fedcba9876543210" && what == Times
			}
		}
		source := &strictSource{t: t, allowed: rights}
		var as Source = source
		h := handler{layout: snowflake.Default(), connections: httpguard.New(1), tokens: func() Tokens { return tokens }}
		h.source.Store(&as)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		counted := int64(0)
		for i, status := range statuses {
			n := h.figures.byStatus[i].Load()
			counted += n
			if (n == 1) != (status == w.Code) {
				t.Errorf("%d is counted %d times, the answer is %d", status, n, w.Code)
			}
		}
		if counted != 1 || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") == "" {
			t.Errorf("%d answers, %v", counted, w.Header())
		}
		decodes := r.URL.Path == pathLeafDecode || r.URL.Path == pathOpenAPI
		if w.Code == http.StatusOK && !decodes && source.asked != 1 || source.asked > 1 {
			t.Errorf("status %d, and the source was asked %d times", w.Code, source.asked)
		}
	})
}

// FuzzTokens: a token file is read or refused; only rights in it are granted.
func FuzzTokens(f *testing.F) {
	f.Add("0123456789abcdef order.* @snowflake\n# comment\n\nfedcba9876543210 >", "fedcba9876543210", "order.de")
	f.Add("0123456789abcdef order.>", "0123456789abcde", "order.de.x")
	f.Fuzz(func(t *testing.T, text, token, tag string) {
		tokens, err := ParseTokens([]byte(text))
		if err != nil {
			return
		}
		right := tokens.find(token)
		if right != nil && (!strings.Contains(text, token) || len(token) < minToken || len(right) == 0) {
			t.Errorf("%q is a token of %q", token, text)
		}
		if messages.CheckTag(tag) == nil && right.allows(tag) && !strings.Contains(text, tag) && !strings.ContainsAny(text, "*>") {
			t.Errorf("%q allows %q in %q", token, tag, text)
		}
	})
}
