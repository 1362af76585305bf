package statuspage_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/cmd/internal/status"
	"github.com/idworker/idworker/cmd/internal/statuspage"
)

// TestRequests: only what the page knows is answered, and always with the policy.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := new(source)
	s.current.Store(sample(time.Now()))
	mux := http.NewServeMux()
	statuspage.Register(mux, s)
	for _, c := range []struct {
		method, target string
		code           int
		says           string
	}{
		{"GET", "/", 200, "page 1 of 400"},
		{"HEAD", "/", 200, ""},
		{"GET", "/?q=shop-00&sort=name&page=2&other=1", 200, "page 2 of 4"},
		{"GET", "/?page=999999", 200, "page 400 of 400"},
		{"GET", "/?q=%3Cb%3E", 200, "&lt;b&gt;"},
		{"GET", "/?q=" + strings.Repeat("a", 128), 200, "No tag has"},
		{"GET", "/?q=" + strings.Repeat("a", 129), 400, "at most 128 bytes"},
		{"GET", "/?q=%ff", 400, "UTF-8"},
		{"GET", "/?page=0", 400, "allowed is 1 to 1000000"},
		{"GET", "/?page=-1", 400, "allowed is 1 to 1000000"},
		{"GET", "/?page=1e3", 400, "allowed is 1 to 1000000"},
		{"GET", "/?page=99999999999999999999", 400, "allowed is 1 to 1000000"},
		{"GET", "/?sort=newest", 400, "allowed are rate, runway, name"},
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

// slowSource does not answer until it may.
type slowSource struct{ free chan struct{} }

func (s slowSource) Get(ctx context.Context) (*status.Installation, error) {
	select {
	case <-s.free:
		return new(status.Installation), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestViewersAreBounded: those who come while many wait are told to come again.
func TestViewersAreBounded(t *testing.T) {
	t.Parallel()
	s := slowSource{make(chan struct{})}
	mux := http.NewServeMux()
	statuspage.Register(mux, s)
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
	close(s.free)
	all.Wait()
	for range room {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("%d for one that waited", code)
		}
	}
}
