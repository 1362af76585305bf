package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/idworker/idworker/messages"
)

// The media types of replies.
const (
	typeJSON = "application/json" // {"ids":["1001","1002"]}
	typeText = "text/plain"       // as by NATS: 1001-1002
)

// serveTag answers a request for IDs of a tag.
func (h *handler) serveTag(w http.ResponseWriter, r *http.Request, tag string) {
	if err := messages.CheckTag(tag); err != nil {
		h.failV1(w, false, &failure{http.StatusBadRequest, err.Error()})
		return
	}
	h.serveV1(w, r, tag)
}

// serveV1 answers a request for IDs of a tag, or of Times.
func (h *handler) serveV1(w http.ResponseWriter, r *http.Request, what string) {
	preferred := prefer(r.Header["Accept"], typeJSON, typeText)
	if preferred == "" {
		h.failV1(w, false, &failure{http.StatusNotAcceptable, "allowed are " + typeJSON + " and " + typeText})
		return
	}
	asText := preferred == typeText
	count, f := countOf(r.URL.RawQuery)
	if f != nil {
		h.failV1(w, asText, f)
		return
	}
	// The source refuses a malformed count.
	n, _ := messages.DecodeCount(count, math.MaxInt64)
	if n > maxAsJSON && !asText {
		text := fmt.Sprintf("%d IDs, allowed as %s are %d; %s may allow more", n, typeJSON, maxAsJSON, typeText)
		h.failV1(w, asText, &failure{http.StatusBadRequest, text})
		return
	}
	reply, f := h.takeIDs(r, what, count)
	if f == nil && !asText {
		reply, f = toJSON(reply, n)
	}
	switch {
	case f != nil:
		h.failV1(w, asText, f)
	case asText:
		h.reply(w, http.StatusOK, typeText+"; charset=utf-8", reply)
	default:
		h.reply(w, http.StatusOK, typeJSON, reply)
	}
}

// prefer returns the offered type that a client's Accept headers name first,
// the first offered if there are none, and "" if they name neither. It ignores
// quality values: clients list their preference first.
func prefer(accept []string, offered ...string) string {
	if len(accept) == 0 {
		return offered[0]
	}
	for accepted := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, _, _ := strings.Cut(accepted, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(offered, func(media string) bool {
			major, _, _ := strings.Cut(media, "/")
			return name == media || name == major+"/*" || name == "*/*"
		})
		if i >= 0 {
			return offered[i]
		}
	}
	return ""
}

// maxAsJSON bounds the IDs of a reply in JSON: 220 kB.
const maxAsJSON = 10_000

// countOf returns the count in a query, as in a NATS request.
func countOf(query string) (count []byte, f *failure) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "malformed query: " + err.Error()}
	}
	for name := range values {
		if name != "n" {
			return nil, &failure{http.StatusBadRequest, "unknown parameter " + strconv.Quote(name) + ", allowed is n, the number of IDs"}
		}
	}
	switch n := values["n"]; {
	case len(n) == 0:
		return nil, nil
	case len(n) == 1 && n[0] != "":
		return []byte(n[0]), nil
	}
	return nil, &failure{http.StatusBadRequest, "malformed count: allowed is one n, a decimal of at least 1"}
}

// toJSON writes the n IDs of a reply as strings: many programs parse JSON
// numbers as doubles, which round them.
func toJSON(reply []byte, n int64) ([]byte, *failure) {
	ranges, err := messages.DecodeRanges(reply, n)
	if err != nil {
		return nil, &failure{http.StatusServiceUnavailable, err.Error()}
	}
	const head, between, tail = `{"ids":["`, `","`, "\"]}\n"
	out := append(make([]byte, 0, 48*n), head...)
	for id := range messages.IDs(ranges) {
		out = append(strconv.AppendInt(out, id, 10), between...)
	}
	return append(out[:len(out)-len(between)], tail...), nil
}

// errorV1 is the body of an error under /v1.
type errorV1 struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// failV1 answers with an error.
func (h *handler) failV1(w http.ResponseWriter, asText bool, f *failure) {
	explain(w.Header(), f.status)
	if asText {
		h.reply(w, f.status, typeText+"; charset=utf-8", []byte(f.text))
		return
	}
	body, _ := json.Marshal(errorV1{f.status, f.text}) // cannot fail
	h.reply(w, f.status, typeJSON, append(body, '\n'))
}

//go:embed openapi.yaml
var openAPI []byte

// serveOpenAPI answers with the description of the API, without a token.
func (h *handler) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	if f := h.refuse(r); f != nil {
		h.failV1(w, false, f)
		return
	}
	h.reply(w, http.StatusOK, "application/yaml", openAPI)
}
