package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

// asked is an answer by HTTP.
type asked struct {
	status int
	header http.Header
	body   string
}

// askHTTP sends a request. Headers are names and values in turn.
func askHTTP(t testing.TB, client *http.Client, method, url string, headers ...string) (a asked, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return asked{response.StatusCode, response.Header, string(body)}, err
}

// newHTTPClient keeps its connections, and never retries a request that was
// answered.
func newHTTPClient(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: natstest.Patience}
}

// httpCallers request IDs one after the other, as callers of Leaf do, until
// stopped.
type httpCallers struct {
	stop  func() // waits for the last answers
	again atomic.Int64
}

// startHTTPCallers starts callers of a tag, who note their IDs in the ledger.
// They retry, and count that, if there is no answer at all; every other answer
// than an ID fails the test.
func startHTTPCallers(t testing.TB, callers int, base, tag string, into *ledger) *httpCallers {
	t.Helper()
	c := &httpCallers{}
	client := newHTTPClient(t)
	var done atomic.Bool
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for last := int64(0); !done.Load(); {
				a, err := askHTTP(t, client, http.MethodGet, base+"/api/segment/get/"+tag)
				if err != nil {
					c.again.Add(1)
					continue
				}
				if a.status == http.StatusInternalServerError && strings.Contains(a.body, "-3") {
					continue // in Leaf's words: no IDs at the moment, the machine is busy
				}
				id, err := strconv.ParseInt(a.body, 10, 64)
				if err != nil || a.status != http.StatusOK || id == last {
					t.Errorf("%s: %+v", tag, a)
					return
				}
				last = id
				into.add([]messages.Range{{First: id, Last: id}})
			}
		})
	}
	c.stop = sync.OnceFunc(func() { done.Store(true); all.Wait() })
	t.Cleanup(c.stop)
	return c
}

// leafHTTP is a server of Leaf, as callers see it.
type leafHTTP struct {
	*httptest.Server
	d   database
	db  *dbtest.DB
	ids atomic.Int64 // handed out

	mu       sync.Mutex
	segments map[string]store.Segment // their rest
}

func (d database) startLeafHTTP(t testing.TB, db *dbtest.DB) *leafHTTP {
	l := &leafHTTP{d: d, db: db, segments: make(map[string]store.Segment)}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

// ServeHTTP answers with the next ID of a tag that is there.
func (l *leafHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tag := r.URL.Path[len("/api/segment/get/"):]
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.segments[tag]
	for s.First == s.End {
		var err error
		if s, _, err = l.d.Segment(context.WithoutCancel(r.Context()), l.db.SQL(), tag); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	l.segments[tag] = store.Segment{First: s.First + 1, End: s.End}
	l.ids.Add(1)
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	_, _ = fmt.Fprint(w, s.First)
}

// balancer sends each request to the next of its servers.
type balancer struct {
	*httptest.Server
	servers atomic.Pointer[[]http.Handler]
	turn    atomic.Uint64
}

func startBalancer(t testing.TB) *balancer {
	b := &balancer{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		servers := *b.servers.Load()
		servers[b.turn.Add(1)%uint64(len(servers))].ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// use has the balancer send requests to these servers from now on.
func (b *balancer) use(t testing.TB, servers ...string) {
	t.Helper()
	var proxies []http.Handler
	for _, s := range servers {
		to, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, httputil.NewSingleHostReverseProxy(to))
	}
	b.servers.Store(&proxies)
}

// pair is a certificate of a server and its key, in files.
type pair struct {
	cert, key string
	of        *x509.Certificate
}

func newPair(t *testing.T, folder string) pair {
	t.Helper()
	key, cert := certificate(t, "server", nil, nil)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		return write(t, folder, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	return pair{file("api-cert.pem", "CERTIFICATE", cert.Raw), file("api-key.pem", "EC PRIVATE KEY", der), cert}
}

// client trusts that certificate and no other.
func (p pair) client(t testing.TB) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(p.of)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: natstest.Patience}
}
