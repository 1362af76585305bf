package api

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/idworker/idworker/internal/httpguard"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// The paths. A tag follows those that end in a slash.
const (
	pathSegment   = "/v1/segment/"
	pathSnowflake = "/v1/snowflake"
	pathOpenAPI   = "/v1/openapi.yaml"

	pathLeafSegment   = "/api/segment/get/"
	pathLeafSnowflake = "/api/snowflake/get/"
	pathLeafDecode    = "/decodeSnowflakeId"
)

// handler answers requests.
type handler struct {
	layout snowflake.Layout
	// names that callers may use for a server without tokens
	hosts       []string
	exposed     bool // a server without tokens answers other machines, too
	connections *httpguard.Connections
	source      atomic.Pointer[Source] // nil until the worker works
	tokens      func() Tokens          // nil: no token is required
	figures     figures
}

// ServeHTTP routes a request. It does not clean up paths or redirect.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if tag, ok := strings.CutPrefix(path, pathSegment); ok {
		h.serveTag(w, r, tag)
		return
	}
	if tag, ok := strings.CutPrefix(path, pathLeafSegment); ok {
		h.serveLeafTag(w, r, tag)
		return
	}
	if key, ok := strings.CutPrefix(path, pathLeafSnowflake); ok {
		h.serveLeaf(w, r, key, Times)
		return
	}
	switch path {
	case pathSnowflake:
		h.serveV1(w, r, Times)
	case pathLeafDecode:
		h.serveDecode(w, r)
	case pathOpenAPI:
		h.serveOpenAPI(w, r)
	default:
		h.failV1(w, false, &failure{http.StatusNotFound, "no such path; see " + pathOpenAPI})
	}
}

// failure is the reason why a request gets no IDs.
type failure struct {
	status int
	text   string
}

// takeIDs gets IDs of a tag, or of Times, from the source, if the request may have
// them. Count is the body of a NATS request.
func (h *handler) takeIDs(r *http.Request, what string, count []byte) (reply []byte, f *failure) {
	if f := h.admit(r, what); f != nil {
		return nil, f
	}
	source := h.source.Load()
	if source == nil {
		return nil, errStarting
	}
	// The body must arrive before the source reserves IDs.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, &failure{http.StatusBadRequest, "the body ended early"}
	}
	h.connections.Admit(r.Context())
	traceparent := messages.DecodeTraceparent(r.Header)
	var err error
	if what == Times {
		reply, err = (*source).Snowflake(r.Context(), count, traceparent)
	} else {
		reply, err = (*source).Segment(r.Context(), what, count, len(r.Header.Values(messages.PrefetchHeader)) > 0, traceparent)
	}
	if err != nil {
		return nil, h.failureOf(err)
	}
	return reply, nil
}

// errStarting is the answer until the worker works.
var errStarting = &failure{http.StatusServiceUnavailable, "starting"}

// failureOf translates an error of the source: its code is the status. A newer
// worker's code that is no error status means that there is no ID.
func (h *handler) failureOf(err error) *failure {
	var reported *messages.Error
	if !errors.As(err, &reported) { // the client has gone
		h.figures.abandoned.Add(1)
		panic(http.ErrAbortHandler)
	}
	status := int(reported.Code)
	if status < http.StatusBadRequest || !slices.Contains(statuses[:], status) {
		return &failure{http.StatusServiceUnavailable, reported.Error()}
	}
	return &failure{status, reported.Text}
}

// maxBody bounds the body of a request, in bytes. Its content is ignored.
const maxBody = 4 << 10

// admit returns why a request may not get IDs of a well-formed tag, or of
// Times; or nil.
func (h *handler) admit(r *http.Request, what string) *failure {
	if f := h.refuse(r); f != nil || h.tokens == nil {
		return f
	}
	token, ok := bearer(r.Header["Authorization"])
	if !ok {
		return &failure{http.StatusUnauthorized, "one Authorization header with a bearer token is required"}
	}
	right := h.tokens().find(token)
	if right == nil {
		return &failure{http.StatusUnauthorized, "unknown token"}
	}
	if !right.allows(what) {
		return &failure{http.StatusForbidden, "the token does not allow this"}
	}
	return nil
}

// refuse returns why such a request is refused from any client, or nil.
func (h *handler) refuse(r *http.Request) *failure {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		return &failure{http.StatusMethodNotAllowed, "method not allowed, allowed are GET and POST"}
	case r.ContentLength < 0:
		return &failure{http.StatusLengthRequired, "a body needs a Content-Length; no body is needed"}
	case r.ContentLength > maxBody:
		return &failure{http.StatusRequestEntityTooLarge, "body larger than 4096 bytes; no body is needed"}
	case foreign(r):
		return &failure{http.StatusForbidden, "a page of another site cannot request IDs"}
	case h.tokens == nil && !h.exposed && !httpguard.Trusted(r.Host, h.hosts):
		return &failure{http.StatusForbidden, httpguard.Refusal}
	}
	return nil
}

// foreign reports whether a page of another site made a browser send the
// request. Such a page could use up IDs of a server that only its visitor can
// reach. Browsers send Sec-Fetch-Site to localhost and with TLS. Elsewhere they
// send only Origin, if the page is to read the answer.
func foreign(r *http.Request) bool {
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && site[0] != "none" && site[0] != "same-origin" {
		return true
	}
	origin := r.Header["Origin"]
	if len(origin) == 0 {
		return false
	}
	_, host, _ := strings.Cut(origin[0], "://")
	return !strings.EqualFold(host, r.Host)
}

// bearer returns the token of a request's Authorization headers.
func bearer(authorization []string) (token string, ok bool) {
	if len(authorization) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}

// smallReply is the size in bytes up to which net/http sets the length of a
// reply.
const smallReply = 2000

var noStore = []string{"no-store"}

// reply answers. Replies must not be cached: a cached reply would repeat an ID.
func (h *handler) reply(w http.ResponseWriter, status int, contentType string, body []byte) {
	header := w.Header()
	header["Content-Type"] = []string{contentType}
	header["Cache-Control"] = noStore
	if len(body) > smallReply {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	h.connections.Header(header)
	h.figures.count(status)
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // no markup: it is JSON or plain text, and its type says so. It fails only with the connection
}

// explain sets the headers that belong to a failure.
func explain(header http.Header, status int) {
	// The body repeats a part of the request.
	header.Set("X-Content-Type-Options", "nosniff")
	switch status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="idworker"`)
		// A removed token keeps no connection.
		header.Set("Connection", "close")
	case http.StatusMethodNotAllowed:
		header.Set("Allow", "GET, POST")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header.Set("Retry-After", "1") // seconds
	case http.StatusLengthRequired, http.StatusRequestEntityTooLarge:
		header.Set("Connection", "close") // the body is not read
	}
}
