package health

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"time"
	"unicode/utf8"
)

//go:embed status.html status.css status.js status.txt
var files embed.FS

// policy is the content security policy: only the page's own files and forms.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	shownFor   = 2 * time.Second // before a new collection
	shownTags  = 25
	maxSearch  = 128 // bytes, as the longest tag
	maxViewers = 64  // concurrent
	// For a collection; less than the write timeout.
	maxWait = 8 * time.Second
)

// StatusPage shows an installation in browsers. The server creates the HTML, which
// works without a script by reloading. A script replaces its sections in place
// and keeps input, scroll position and focus. The content security policy
// allows only the page's own files, so the names of tags and hosts are text.
type StatusPage struct {
	collect func(context.Context) *Installation
	viewers chan struct{}

	ctx        context.Context // of collections
	cancel     context.CancelFunc
	collecting chan struct{} // held by the viewer that reads or collects latest
	latest     *Installation
}

// NewPage returns a page that collects while it has viewers. Close it.
func NewPage(c *Collector) *StatusPage { return newPage(c.Collect) }

func newPage(collect func(context.Context) *Installation) *StatusPage {
	p := &StatusPage{collect: collect, viewers: make(chan struct{}, maxViewers), collecting: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close waits for the current collection.
func (p *StatusPage) Close() {
	p.cancel()
	p.collecting <- struct{}{}
}

// get returns an installation that is at most two seconds old. A viewer that
// leaves does not end a collection, because others wait for it.
func (p *StatusPage) get(ctx context.Context) (*Installation, error) {
	select {
	case p.collecting <- struct{}{}:
		defer func() { <-p.collecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.latest == nil || time.Since(p.latest.Taken) > shownFor {
		p.latest = p.collect(p.ctx)
	}
	return p.latest, nil
}

// Register serves the page at /, and its files.
func (p *StatusPage) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", p.serve)
	for _, name := range []string{"status.css", "status.js"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			secure(w.Header())
			w.Header().Set("Cache-Control", "max-age=60")
			http.ServeFileFS(w, r, files, name)
		})
	}
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

func (p *StatusPage) serve(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	search, by := r.FormValue("q"), Sort(cmp.Or(r.FormValue("sort"), string(ByRate)))
	switch {
	case len(search) > maxSearch || !utf8.ValidString(search):
		http.Error(w, "q: must be UTF-8 of at most 128 bytes", http.StatusBadRequest)
		return
	case sorts[by] == nil:
		http.Error(w, "sort: must be rate, runway or name", http.StatusBadRequest)
		return
	}
	select {
	case p.viewers <- struct{}{}:
		defer func() { <-p.viewers }()
	default:
		w.Header().Set("Retry-After", "2")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	installation, err := p.get(ctx)
	if err != nil {
		http.Error(w, "no status: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	var html bytes.Buffer
	if err := page.Execute(&html, installation.View(search, by, shownTags)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = html.WriteTo(w) // the client may be gone
}

// page is the template of a [View].
var page = template.Must(template.New("status.html").Funcs(formats).ParseFS(files, "status.html"))
