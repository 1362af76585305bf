package api

import (
	"net/http"
	"strings"

	"github.com/idworker/idworker/internal/hostheader"
)

// maxBody is how long the body of a request may be, which is not read.
const maxBody = 4 << 10

// failure is why a request gets no IDs.
type failure struct {
	status int
	text   string
}

// admit says why a request must not be asked of the source, or returns nil. What is what it asks for, a
// well-formed tag or Times.
func (h *handler) admit(r *http.Request, what string) *failure {
	if f := h.refuse(r); f != nil || h.tokens == nil {
		return f
	}
	token, ok := bearer(r.Header["Authorization"])
	if !ok {
		return &failure{http.StatusUnauthorized, "one header Authorization with a bearer token is needed"}
	}
	right, ok := h.tokens.current.Load().find(token)
	if !ok {
		return &failure{http.StatusUnauthorized, "no such token"}
	}
	if !right.allows(what) {
		return &failure{http.StatusForbidden, "the token is not for this"}
	}
	return nil
}

// refuse says why nobody may send such a request, or returns nil.
func (h *handler) refuse(r *http.Request) *failure {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		return &failure{http.StatusMethodNotAllowed, "method not allowed, allowed are GET and POST"}
	case r.ContentLength < 0:
		return &failure{http.StatusLengthRequired, "a body needs a Content-Length; none is needed"}
	case r.ContentLength > maxBody:
		return &failure{http.StatusRequestEntityTooLarge, "a body of more than 4096 bytes; none is needed"}
	case foreign(r):
		return &failure{http.StatusForbidden, "a page of another site must not ask for IDs"}
	case h.tokens == nil && !h.exposed && !hostheader.Trusted(r.Host, h.hosts):
		return &failure{http.StatusForbidden, hostheader.Refusal}
	}
	return nil
}

// foreign reports whether a browser says that a page of another site sends the request. Such a page could
// use up IDs of a server that only its visitor can reach. Browsers say it of localhost and with TLS; elsewhere
// only of requests whose answer the page wants to read.
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
	const scheme = "bearer "
	if len(authorization) != 1 || len(authorization[0]) <= len(scheme) || len(authorization[0]) > len(scheme)+maxToken {
		return "", false
	}
	name, token := authorization[0][:len(scheme)], authorization[0][len(scheme):]
	return token, strings.EqualFold(name, scheme)
}
