// Package statuspage shows a [status.Installation] in a browser.
//
// The page is HTML that the server makes; it works without script, where it loads itself anew. A little script replaces
// its sections in place instead, so that what was typed, scrolled to and focused stays. Everything comes from this
// server, and the content security policy allows nothing else: no inline script or style either. So whatever a tag or
// a host is called, it is text.
package statuspage

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/idworker/idworker/cmd/internal/status"
)

//go:embed page.html page.css page.js
var files embed.FS

// policy is the content security policy: the page's own files, and its own forms.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	pageSize   = 25
	maxSearch  = 128             // bytes: no tag is longer
	maxPage    = 1_000_000       // a number that no page has
	maxViewers = 64              // who wait or are served at the same time
	maxWait    = 8 * time.Second // for a collection: less than the time there is to write
)

// Source is where the page gets an installation from, a [status.Shared].
type Source interface {
	Get(ctx context.Context) (*status.Installation, error)
}

// page answers requests for the page.
type page struct {
	source   Source
	template *template.Template
	viewers  chan struct{}
	now      func() time.Time
}

// Register has a mux serve the page at /, and its files beside it.
func Register(mux *http.ServeMux, source Source) {
	p := &page{
		source:   source,
		template: template.Must(template.New("page.html").Funcs(functions).ParseFS(files, "page.html")),
		viewers:  make(chan struct{}, maxViewers),
		now:      time.Now,
	}
	mux.HandleFunc("GET /{$}", p.serve)
	mux.Handle("GET /status.css", file("page.css", "text/css; charset=utf-8"))
	mux.Handle("GET /status.js", file("page.js", "text/javascript; charset=utf-8"))
}

// file serves one of the files.
func file(name, kind string) http.Handler {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		secure(w.Header())
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = w.Write(data) // a client that has gone needs none
	})
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

func (p *page) serve(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	query, err := parse(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.viewers <- struct{}{}:
		defer func() { <-p.viewers }()
	default:
		tooMany(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	installation, err := p.source.Get(ctx)
	if err != nil {
		http.Error(w, "no status: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	var html bytes.Buffer
	if err := p.template.Execute(&html, content{installation.View(query), p.now()}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = html.WriteTo(w) // a client that has gone needs none
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "2")
	http.Error(w, "too many viewers at this moment", http.StatusServiceUnavailable)
}

var (
	errSearch = errors.New("q: allowed is text of at most 128 bytes, UTF-8")
	errPage   = errors.New("page: allowed is 1 to 1000000")
	errSort   = errors.New("sort: allowed are rate, runway, name")
)

// parse reads what the viewer wants to see. Other parameters are passed over.
func parse(r *http.Request) (q status.Query, err error) {
	form := r.URL.Query()
	q = status.Query{Search: form.Get("q"), Sort: status.Order(form.Get("sort")), Page: 1, Size: pageSize}
	if len(q.Search) > maxSearch || !utf8.ValidString(q.Search) {
		return q, errSearch
	}
	switch q.Sort {
	case "":
		q.Sort = status.ByRate
	case status.ByRate, status.ByRunway, status.ByName:
	default:
		return q, errSort
	}
	if text := form.Get("page"); text != "" {
		if q.Page, err = strconv.Atoi(text); err != nil || q.Page < 1 || q.Page > maxPage {
			return q, errPage
		}
	}
	return q, nil
}
