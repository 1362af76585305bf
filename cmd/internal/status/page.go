package status

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

// policy is the content security policy: the page's own files, and its own forms.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	shownFor   = 2 * time.Second // a collection
	shownTags  = 25
	maxSearch  = 128             // bytes: no tag is longer
	maxViewers = 64              // who wait or are served at the same time
	maxWait    = 8 * time.Second // for a collection: less than the time there is to write
)

// Page shows an installation in browsers. The server makes the HTML, which works
// without script: it reloads. A script replaces its sections in place, so that
// input, scroll position and focus stay. The content security policy allows
// nothing but the page's own files, so the names of tags and hosts are text.
type Page struct {
	collect func(context.Context) *Installation
	viewers chan struct{}

	ctx    context.Context // of collections
	cancel context.CancelFunc
	turn   chan struct{} // held by the viewer who looks at latest, and collects
	latest *Installation
}

// NewPage returns a page that collects while it is looked at. Close ends it.
func NewPage(c *Collector) *Page { return newPage(c.Collect) }

func newPage(collect func(context.Context) *Installation) *Page {
	p := &Page{collect: collect, viewers: make(chan struct{}, maxViewers), turn: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close waits for the collection under way.
func (p *Page) Close() {
	p.cancel()
	p.turn <- struct{}{}
}

// get returns the installation as it was at most two seconds ago. A viewer who
// leaves does not end a collection: others wait for it.
func (p *Page) get(ctx context.Context) (*Installation, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.latest == nil || time.Since(p.latest.Taken) > shownFor {
		p.latest = p.collect(p.ctx)
	}
	return p.latest, nil
}

// Register serves the page at /, and its files.
func (p *Page) Register(mux *http.ServeMux) {
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

func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	search, by := r.FormValue("q"), Sort(cmp.Or(r.FormValue("sort"), string(ByRate)))
	switch {
	case len(search) > maxSearch || !utf8.ValidString(search):
		http.Error(w, "q: allowed is text of at most 128 bytes, UTF-8", http.StatusBadRequest)
		return
	case sorts[by] == nil:
		http.Error(w, "sort: allowed are rate, runway, name", http.StatusBadRequest)
		return
	}
	select {
	case p.viewers <- struct{}{}:
		defer func() { <-p.viewers }()
	default:
		w.Header().Set("Retry-After", "2")
		http.Error(w, "too many viewers at this moment", http.StatusServiceUnavailable)
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
	_, _ = html.WriteTo(w) // a client that has gone needs none
}

// page is the template, which gets a [View].
var page = template.Must(template.New("status.html").Funcs(formats).ParseFS(files, "status.html"))
