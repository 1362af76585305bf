package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

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
	layout  snowflake.Layout
	hosts   []string               // names that callers may use for the server without tokens
	exposed bool                   // without tokens others than programs of this machine are answered, too
	source  atomic.Pointer[Source] // nil until the worker works
	tokens  *watched[Tokens]       // nil: none is needed
	figures figures
}

func newHandler(cfg Config) *handler {
	return &handler{layout: cfg.Layout, hosts: cfg.Hosts, exposed: cfg.Exposed}
}

// ServeHTTP finds out whom a request is for. Paths are taken as they are: nothing is cleaned up, and no
// redirect leads elsewhere.
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
		h.failV1(w, asJSON, &failure{http.StatusNotFound, "no such path; " + pathOpenAPI + " describes all there are"})
	}
}

// ask asks the source for IDs of a tag, or for Times, once it is certain that it may. Count is what a request by NATS has
// in its body.
func (h *handler) ask(r *http.Request, what string, count []byte) (reply []byte, f *failure) {
	if f := h.admit(r, what); f != nil {
		return nil, f
	}
	source := h.source.Load()
	if source == nil {
		return nil, errStarting
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil { // waited for before the source is asked, not behind it
		return nil, &failure{http.StatusBadRequest, "the body ended early"}
	}
	c := r.Context().Value(connKey{}).(*conn)
	c.asks()
	defer c.answered()
	var err error
	if what == Times {
		reply, err = (*source).Snowflake(r.Context(), count)
	} else {
		reply, err = (*source).Segment(r.Context(), what, count, len(r.Header[messages.PrefetchHeader]) > 0)
	}
	if err != nil {
		return nil, h.failureOf(err)
	}
	return reply, nil
}

// errStarting is the answer until the worker works.
var errStarting = &failure{http.StatusServiceUnavailable, "starting"}

// failureOf is what an error of the source means here: its code is the status. It may be that of another worker; what
// is no status of an error says only that there is no ID.
func (h *handler) failureOf(err error) *failure {
	var said *messages.Error
	if !errors.As(err, &said) { // the client has gone
		h.figures.abandoned.Add(1)
		panic(http.ErrAbortHandler)
	}
	if said.Code < http.StatusBadRequest || !isStatus(int(said.Code)) {
		return &failure{http.StatusServiceUnavailable, said.Error()}
	}
	return &failure{int(said.Code), said.Text}
}

// start writes the header of a reply. None may be kept: who got it from a cache would get an ID that
// somebody else has.
func (h *handler) start(w http.ResponseWriter, status int, contentType []string) {
	header := w.Header()
	header["Content-Type"] = contentType
	header["Cache-Control"] = noStore
	h.figures.count(status)
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
}

// write writes the body of a reply.
func write(w http.ResponseWriter, body []byte) {
	_, _ = w.Write(body) //nolint:gosec // no markup: it is JSON or plain text, and its type says so. It fails only with the connection
}

var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"} // for what repeats something of the request
)
