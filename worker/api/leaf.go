package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// Leaf's own server (recorded from version 1.0.1) answers with an ID as bare
// text. Any failure is status 500 with its framework's error page, and the
// connection is closed.

// The values of Content-Type, as Leaf writes them.
const (
	leafText = "text/plain;charset=UTF-8"
	leafJSON = "application/json;charset=UTF-8"
)

// The number for each reason in messages of Leaf's server.
const (
	leafStarting = -1
	leafNoKey    = -2
	leafNoIDs    = -3
)

// leafError is the body of an error.
type leafError struct {
	Timestamp int64  `json:"timestamp"` // ms
	Status    int    `json:"status"`
	Error     string `json:"error"`
	Exception string `json:"exception,omitempty"`
	Message   string `json:"message"`
	Path      string `json:"path"`
}

const leafException = "com.sankuai.inf.leaf.server.exception.LeafServerException"

// serveLeafTag answers a request for an ID of a tag.
func (h *handler) serveLeafTag(w http.ResponseWriter, r *http.Request, tag string) {
	if tag == Times { // not a tag
		h.failLeaf(w, r, noID(leafNoKey))
		return
	}
	h.serveLeaf(w, r, tag, tag)
}

// serveLeaf answers a request for an ID of a tag, or of Times. Key is the last
// part of the path.
func (h *handler) serveLeaf(w http.ResponseWriter, r *http.Request, key, what string) {
	if key == "" || strings.Contains(key, "/") {
		h.failLeaf(w, r, &leafError{Status: http.StatusNotFound, Message: "No message available"})
		return
	}
	if what != Times && messages.CheckTag(what) != nil {
		h.failLeaf(w, r, noID(leafNoKey))
		return
	}
	reply, f := h.takeIDs(r, what, nil)
	if f != nil {
		h.failLeaf(w, r, toLeafError(f, what))
		return
	}
	contentType := leafText
	if prefer(r.Header["Accept"], typeText, typeJSON) == typeJSON {
		contentType = leafJSON // the same bare number
	}
	h.reply(w, http.StatusOK, contentType, reply)
}

// toLeafError translates a failure. Those unknown to Leaf, such as a missing
// token, keep their status.
func toLeafError(f *failure, what string) *leafError {
	switch {
	case f == errStarting || f.status == http.StatusServiceUnavailable && what == Times:
		return noID(leafStarting)
	case f.status == http.StatusNotFound || f.status == http.StatusBadRequest:
		return noID(leafNoKey)
	case f.status >= http.StatusTooManyRequests:
		return noID(leafNoIDs)
	}
	return &leafError{Status: f.status, Message: f.text}
}

func noID(why int) *leafError {
	return &leafError{
		Status: http.StatusInternalServerError, Exception: leafException,
		Message: "Result{id=" + strconv.Itoa(why) + ", status=EXCEPTION}",
	}
}

// failLeaf answers with an error.
func (h *handler) failLeaf(w http.ResponseWriter, r *http.Request, e *leafError) {
	e.Timestamp, e.Error, e.Path = time.Now().UnixMilli(), http.StatusText(e.Status), r.URL.EscapedPath()
	explain(w.Header(), e.Status)
	if e.Status != http.StatusNotFound {
		w.Header().Set("Connection", "close")
	}
	body, _ := json.Marshal(e) // cannot fail
	h.reply(w, e.Status, leafJSON, body)
}

// leafParts has the parts of a snowflake ID.
type leafParts struct {
	Worker   string `json:"workerId,omitempty"`
	Sequence string `json:"sequenceId,omitempty"`
	// milliseconds, followed by the local time
	Timestamp string `json:"timestamp,omitempty"`
	Error     string `json:"errorMsg,omitempty"`
}

// serveDecode splits a snowflake ID into its parts. The answer reveals only
// parts of the ID, so no token is needed.
func (h *handler) serveDecode(w http.ResponseWriter, r *http.Request) {
	if f := h.refuse(r); f != nil {
		h.failLeaf(w, r, &leafError{Status: f.status, Message: f.text})
		return
	}
	id := r.URL.Query()["snowflakeId"]
	if len(id) == 0 {
		h.failLeaf(w, r, &leafError{Status: http.StatusBadRequest, Message: "Required String parameter 'snowflakeId' is not present"})
		return
	}
	body, _ := json.Marshal(h.decode(id[0])) // cannot fail
	h.reply(w, http.StatusOK, leafJSON, body)
}

func (h *handler) decode(text string) leafParts {
	id, err := snowflake.Parse(text)
	if err != nil {
		return leafParts{Error: err.Error()}
	}
	at := h.layout.Time(id)
	worker := h.layout.Datacenter(id)*(h.layout.MaxWorkerID()+1) + h.layout.WorkerID(id)
	return leafParts{
		Worker:    strconv.FormatInt(worker, 10),
		Sequence:  strconv.FormatInt(h.layout.Sequence(id), 10),
		Timestamp: strconv.FormatInt(at.UnixMilli(), 10) + at.Local().Format("(2006-01-02 15:04:05.000)"),
	}
}
