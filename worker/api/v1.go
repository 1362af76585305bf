package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/idworker/idworker/messages"
)

// format is how IDs are written under /v1.
type format int

// The formats.
const (
	asJSON format = iota // {"ids":["1001","1002"]}
	asText               // as by NATS: 1001-1002
)

// The values of Content-Type, ready for a header.
var (
	v1JSON = []string{typeJSON}
	v1Text = []string{typeText + "; charset=utf-8"}
)

// retryAfter is in how many seconds it may be worth while to ask again, after 429 and 503.
var retryAfter = []string{"1"}

// serveTag answers a request for IDs of a tag.
func (h *handler) serveTag(w http.ResponseWriter, r *http.Request, tag string) {
	if err := messages.CheckTag(tag); err != nil {
		h.failV1(w, asJSON, &failure{http.StatusBadRequest, err.Error()})
		return
	}
	h.serveV1(w, r, tag)
}

// serveV1 answers a request for IDs of a tag, or for Times.
func (h *handler) serveV1(w http.ResponseWriter, r *http.Request, what string) {
	as := format(prefer(r.Header["Accept"], typeJSON, typeText))
	if as < 0 {
		h.failV1(w, asJSON, &failure{http.StatusNotAcceptable, "allowed are " + typeJSON + " and " + typeText})
		return
	}
	reply, f := h.askV1(r, what, as)
	if f != nil {
		h.failV1(w, as, f)
		return
	}
	contentType := v1JSON
	if as == asText {
		contentType = v1Text
	}
	h.start(w, http.StatusOK, contentType)
	if len(reply) > smallReply {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(reply))}
	}
	write(w, reply)
}

// smallReply is up to what length net/http says by itself how long a reply is.
const smallReply = 2000

// askV1 returns the IDs that a request asks for, written as it wants them.
func (h *handler) askV1(r *http.Request, what string, as format) (reply []byte, f *failure) {
	count, f := countOf(r.URL.RawQuery)
	if f != nil {
		return nil, f
	}
	if as == asText {
		return h.ask(r, what, count)
	}
	n, _ := messages.DecodeCount(count, math.MaxInt64) // what it makes no sense of, the source refuses
	if n > mostAsJSON {
		text := fmt.Sprintf("%d IDs, allowed as %s are %d; as %s there may be more", n, typeJSON, mostAsJSON, typeText)
		return nil, &failure{http.StatusBadRequest, text}
	}
	if reply, f = h.ask(r, what, count); f != nil {
		return nil, f
	}
	return toJSON(reply, n)
}

// mostAsJSON is how many IDs are written one by one at most: 220 kB.
const mostAsJSON = 10_000

// countOf returns what a query says of how many IDs are wanted, as a request by NATS has it.
func countOf(query string) (count []byte, f *failure) {
	if query == "" {
		return nil, nil
	}
	if n, ok := strings.CutPrefix(query, "n="); ok && n != "" && !strings.ContainsAny(n, "&;%+") {
		return []byte(n), nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "malformed query: " + err.Error()}
	}
	for name := range values {
		if name != "n" {
			return nil, &failure{http.StatusBadRequest, "unknown parameter " + strconv.Quote(name) + ", allowed is n, how many IDs are wanted"}
		}
	}
	if n := values["n"]; len(n) == 1 && n[0] != "" {
		return []byte(n[0]), nil
	}
	return nil, &failure{http.StatusBadRequest, "malformed count: allowed is one n, a decimal from 1 on"}
}

// toJSON writes the n IDs of a reply one by one, as strings: many programs read numbers in JSON as doubles,
// which round them.
func toJSON(reply []byte, n int64) ([]byte, *failure) {
	if n == 1 {
		return append(append(append(make([]byte, 0, oneID), jsonHead...), reply...), jsonTail...), nil
	}
	ranges, err := messages.DecodeRanges(reply, n)
	if err != nil {
		return nil, &failure{http.StatusServiceUnavailable, err.Error()}
	}
	out := append(make([]byte, 0, oneID*n), jsonHead...)
	for id := range messages.IDs(ranges) {
		out = append(strconv.AppendInt(out, id, 10), '"', ',', '"')
	}
	return append(out[:len(out)-len(`","`)], jsonTail...), nil
}

// oneID is room for a reply with one ID, or for one ID more.
const oneID = 48

const (
	jsonHead = `{"ids":["`
	jsonTail = "\"]}\n"
)

// errorV1 is the body of an error under /v1.
type errorV1 struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// failV1 answers with an error.
func (h *handler) failV1(w http.ResponseWriter, as format, f *failure) {
	w.Header()["X-Content-Type-Options"] = noSniff
	switch f.status {
	case http.StatusUnauthorized:
		w.Header()["Www-Authenticate"] = challenge
		w.Header()["Connection"] = hangUp // a token that was taken out keeps no place
	case http.StatusMethodNotAllowed:
		w.Header()["Allow"] = allowed
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header()["Retry-After"] = retryAfter
	case http.StatusLengthRequired, http.StatusRequestEntityTooLarge:
		w.Header()["Connection"] = hangUp // what follows is not read
	}
	if as == asText {
		h.start(w, f.status, v1Text)
		write(w, []byte(f.text))
		return
	}
	body, _ := json.Marshal(errorV1{f.status, f.text}) // cannot fail
	h.start(w, f.status, v1JSON)
	write(w, append(body, '\n'))
}

var (
	challenge = []string{`Bearer realm="idworker"`}
	allowed   = []string{"GET, POST"}
	hangUp    = []string{"close"}
)
