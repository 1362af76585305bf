package nemesis

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// answering is a worker with scripted answers.
func answering(t *testing.T, status int, body string) (address string) {
	t.Helper()
	return handling(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
}

func handling(t *testing.T, f http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// gone is an address without a listener.
func gone(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	return strings.TrimPrefix(server.URL, "http://")
}

// TestBalancerGoesOn: it tries the next worker, until a worker answers.
func TestBalancerGoesOn(t *testing.T) {
	silent := handling(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	breakingOff := handling(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = fmt.Fprint(w, "7-")
	})
	var asked atomic.Value // the latest path
	good := handling(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.String())
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/"):
			_, _ = fmt.Fprint(w, "7")
		case r.Header.Get("Accept") == "text/plain":
			_, _ = fmt.Fprint(w, "7-8\n11")
		default:
			_, _ = fmt.Fprint(w, `{"ids":["7","8","11"]}`+"\n")
		}
	})
	others := []string{
		gone(t), silent, breakingOff, answering(t, 503, `{"code":503,"error":"starting"}`), answering(t, 429, ""),
		answering(t, 500, `{"message":"Result{id=-1, status=EXCEPTION}"}`), answering(t, 500, `{"message":"Result{id=-3, status=EXCEPTION}"}`),
	}
	for as, want := range map[form]struct {
		others []string
		path   string
		ranges []messages.Range
	}{
		asJSON: {others[:5], "/v1/segment/order?n=3", []messages.Range{ids(7, 8), ids(11, 11)}},
		asText: {others[:5], "/v1/segment/order?n=3", []messages.Range{ids(7, 8), ids(11, 11)}},
		asLeaf: {others, "/api/segment/get/order", []messages.Range{ids(7, 7)}},
	} {
		n := int64(0)
		for _, r := range want.ranges {
			n += r.Len()
		}
		b := newBalancer(append(want.others[:len(want.others):len(want.others)], good), 200*ms)
		t.Cleanup(b.client.CloseIdleConnections)
		got, err := b.ask(t.Context(), as, "order", n)
		if err != nil || !reflect.DeepEqual(got, want.ranges) {
			t.Errorf("%v: %v, %v; want %v", as, got, err, want.ranges)
		}
		if path := asked.Load(); path != want.path {
			t.Errorf("asked for %s, want %s", path, want.path)
		}
	}
}

// TestBalancerEnds: it ends with the context, and at an error that no fault
// explains.
func TestBalancerEnds(t *testing.T) {
	for name, c := range map[string]struct {
		as     form
		status int
		body   string
		want   error // nil: it retries until the context ends
	}{
		"nobody can":          {asJSON, 503, "starting", nil},
		"no tag":              {asJSON, 404, "no such tag", messages.ErrNoTag},
		"no tag, Leaf":        {asLeaf, 500, `"Result{id=-2, status=EXCEPTION}"`, messages.ErrNoTag},
		"used up":             {asText, 507, "used up", messages.ErrExhausted},
		"malformed":           {asText, 400, "malformed count", messages.ErrMalformed},
		"an error of its own": {asText, 500, "", messages.ErrReply},
		"a page":              {asJSON, 200, "<html>", messages.ErrReply},
		"no ID":               {asJSON, 200, `{"ids":["x"]}`, messages.ErrReply},
		"none":                {asJSON, 200, `{"ids":[]}`, messages.ErrReply},
		"too few":             {asText, 200, "7", messages.ErrReply},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBalancer([]string{answering(t, c.status, c.body)}, httpSilence)
			t.Cleanup(b.client.CloseIdleConnections)
			patience := time.Minute
			if c.want == nil {
				patience = 300 * ms
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ranges, err := b.ask(ctx, c.as, "order", 2)
			if ranges != nil || err == nil || !errors.Is(err, c.want) && c.want != nil {
				t.Errorf("%v, %v; want %v", ranges, err, c.want)
			}
			if isFinal(err) != (c.want != nil) || (ctx.Err() == nil) != isFinal(err) {
				t.Errorf("%v, and the context: %v", err, ctx.Err())
			}
		})
	}
}

// TestBalancerTakesTurns: and keeps its connections.
func TestBalancerTakesTurns(t *testing.T) {
	var served [3]atomic.Int64
	var clients [3]atomic.Value
	var addresses []string
	for i := range served {
		addresses = append(addresses, handling(t, func(w http.ResponseWriter, r *http.Request) {
			served[i].Add(1)
			if was := clients[i].Swap(r.RemoteAddr); was != nil && was != r.RemoteAddr {
				t.Errorf("from %v, and before from %v: a new connection", r.RemoteAddr, was)
			}
			_, _ = fmt.Fprint(w, served[i].Load())
		}))
	}
	b := newBalancer(addresses, time.Minute)
	t.Cleanup(b.client.CloseIdleConnections)
	for range 30 {
		if _, err := b.ask(t.Context(), asText, "order", 1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range served {
		if n := served[i].Load(); n != 10 {
			t.Errorf("worker %d was asked %d times, want 10", i, n)
		}
	}
}
