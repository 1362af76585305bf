package health

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// source is an installation that a test changes.
type source struct {
	current atomic.Pointer[Installation]
	asked   atomic.Int64
}

func (s *source) collect(context.Context) *Installation {
	s.asked.Add(1)
	return s.current.Load()
}

// TestRequests: the page answers only its own URLs, and always with the policy.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := new(source)
	s.current.Store(sample(time.Now()))
	mux := http.NewServeMux()
	newPage(s.collect).Register(mux)
	for _, c := range []struct {
		method, target string
		code           int
		says           string
	}{
		{"GET", "/", 200, "10,000 tags; showing the first 25"},
		{"HEAD", "/", 200, ""},
		{"GET", "/?q=shop-00&sort=name&other=1", 200, "shop-0002.order"},
		{"GET", "/?q=%3Cb%3E", 200, "&lt;b&gt;"},
		{"GET", "/?q=" + strings.Repeat("a", 128), 200, "No tag has"},
		{"GET", "/?q=" + strings.Repeat("a", 129), 400, "at most 128 bytes"},
		{"GET", "/?q=%ff", 400, "UTF-8"},
		{"GET", "/?sort=newest", 400, "must be rate, runway or name"},
		{"GET", "/status.css", 200, "color-scheme"},
		{"GET", "/status.js", 200, "use strict"},
		{"POST", "/", 405, ""},
		{"GET", "/index.html", 404, ""},
		{"GET", "/page.html", 404, ""},
		{"GET", "/page.go", 404, ""},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d, want %d and %q in %.300s", c.method, c.target, w.Code, c.code, c.says, w.Body)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if c.code < 404 && (!strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s %s: the policy is %q", c.method, c.target, policy)
		}
	}
}

// TestViewersAreBounded: with many viewers waiting, the next are refused.
func TestViewersAreBounded(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	mux := http.NewServeMux()
	newPage(func(context.Context) *Installation { <-free; return new(Installation) }).Register(mux)
	const room, viewers = 64, 100
	codes := make(chan int, viewers)
	var all sync.WaitGroup
	for range viewers {
		all.Go(func() {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			codes <- w.Code
		})
	}
	for range viewers - room {
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("%d for one too many", code)
		}
	}
	close(free)
	all.Wait()
	for range room {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("%d for one that waited", code)
		}
	}
}
