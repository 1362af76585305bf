package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openAPI []byte

var typeYAML = []string{"application/yaml"}

// serveOpenAPI answers with the description of the paths, for which no token is needed.
func (h *handler) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	if f := h.refuse(r); f != nil {
		h.failV1(w, asJSON, f)
		return
	}
	h.start(w, http.StatusOK, typeYAML)
	write(w, openAPI)
}
