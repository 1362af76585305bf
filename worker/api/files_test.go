package api_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/tlstest"
	"github.com/idworker/idworker/worker/api"
)

// TestTokensChange: a token removed from the file loses its right, an added
// token gets it, and an invalid file changes nothing.
func TestTokensChange(t *testing.T) {
	t.Parallel()
	tokens := file(t, goodToken+" order\n")
	s, _ := start(t, api.Config{Tokens: tokens})
	status := func(token string) int {
		return exchange(t, s, get("/v1/segment/order", "Authorization: Bearer "+token)).status
	}
	if status(goodToken) != 200 || status(otherToken) != 401 {
		t.Fatal("the first file is not in force")
	}
	caller := connect(t, s)
	defer func() { _ = caller.Close() }()
	request := get("/v1/segment/order", "Authorization: Bearer "+goodToken)
	if got := caller.exchange(t, request); got.status != 200 || got.closed {
		t.Errorf("%+v", got)
	}
	rewrite(t, tokens, otherToken+" order\n")
	eventually(t, "the new file is in force", func() bool { return status(goodToken) == 401 && status(otherToken) == 200 })
	if got := caller.exchange(t, request); got.status != 401 || !got.closed {
		t.Errorf("on an open connection: %+v", got)
	}
	rewrite(t, tokens, "")
	eventually(t, "the metric says so", func() bool { return metrics(t, s)[`idworker_api_file_stale/tokens`] == 1 })
	if status(goodToken) != 401 || status(otherToken) != 200 {
		t.Error("an empty file has changed something")
	}
	rewrite(t, tokens, goodToken+" order\n")
	eventually(t, "the third file is in force", func() bool { return status(goodToken) == 200 && status(otherToken) == 401 })
	eventually(t, "the metric says so", func() bool { return metrics(t, s)[`idworker_api_file_stale/tokens`] == 0 })
}

// newCertificate returns a certificate for 127.0.0.1 and its key, in PEM.
func newCertificate(t testing.TB, serial int64) (certificate, key string) {
	t.Helper()
	return tlstest.Certificate(t, serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// TestCertificateChanges: new connections get the new certificate.
func TestCertificateChanges(t *testing.T) {
	t.Parallel()
	certificate, key := newCertificate(t, 1)
	files := [2]string{file(t, certificate), file(t, key)}
	s, _ := start(t, api.Config{Certificate: files[0], Key: files[1]})
	serial := func() int64 {
		c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write([]byte(get("/v1/segment/order"))); err != nil {
			t.Fatal(err)
		}
		if got := (client{c, bufio.NewReader(c)}).receive(t); got.status != 200 || c.ConnectionState().NegotiatedProtocol != "http/1.1" {
			t.Errorf("%+v, %s", got, c.ConnectionState().NegotiatedProtocol)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if serial() != 1 {
		t.Fatal("another certificate")
	}
	certificate, key = newCertificate(t, 2)
	// For a moment it does not fit the key.
	rewrite(t, files[0], certificate)
	eventually(t, "the metric says so", func() bool { return metrics(t, s)[`idworker_api_file_stale/certificate`] == 1 })
	if serial() != 1 {
		t.Error("half a change is in force")
	}
	rewrite(t, files[1], key)
	eventually(t, "the new certificate is in force", func() bool { return serial() == 2 })

	plain := exchange(t, s, get("/v1/segment/order"))
	if plain.status != 400 || strings.Contains(plain.body, "ids") {
		t.Errorf("without TLS: %+v", plain)
	}
	if c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// TestExposed: without TLS or without tokens, a server listens only on this
// machine, unless it is explicitly exposed.
func TestExposed(t *testing.T) {
	t.Parallel()
	certificate, key := newCertificate(t, 1)
	secure := api.Config{Certificate: file(t, certificate), Key: file(t, key), Tokens: file(t, goodToken+" >\n")}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.9.10:0", "0.0.0.0:0", "[::]:0", ":0"} {
		for _, c := range []struct {
			why         string
			cfg         api.Config
			plain, open bool
		}{
			{"neither", api.Config{}, true, true},
			{"no TLS", api.Config{Tokens: secure.Tokens}, true, false},
			{"no tokens", api.Config{Certificate: secure.Certificate, Key: secure.Key}, false, true},
			{"both", secure, false, false},
			{"told so", api.Config{Exposed: true}, false, false},
		} {
			c.cfg.Address = address
			s, err := api.Open(t.Context(), c.cfg)
			if err == nil {
				s.Stop()
			}
			if err != nil && strings.Contains(err.Error(), "cannot assign requested address") {
				continue // no IPv6 here
			}
			local := !strings.HasPrefix(address, "0.") && !strings.HasPrefix(address, "[::]") && address != ":0"
			var exposed *api.ExposedError
			switch {
			case local || !c.plain && !c.open:
				if err != nil {
					t.Errorf("%s, %s: %v", address, c.why, err)
				}
			case !errors.As(err, &exposed) || exposed.Plain != c.plain || exposed.Open != c.open || exposed.Address != address || !errors.Is(err, api.ErrConfig):
				t.Errorf("%s, %s: %v", address, c.why, err)
			}
		}
	}
	for _, bad := range []api.Config{{Certificate: secure.Certificate}, {Key: secure.Key}, {Connections: -1}, {Connections: 100_001}} {
		bad.Address = "127.0.0.1:0"
		if _, err := api.Open(t.Context(), bad); !errors.Is(err, api.ErrConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	taken, _ := start(t, api.Config{})
	var network *net.OpError
	if _, err := api.Open(t.Context(), api.Config{Address: taken.Address()}); !errors.As(err, &network) || network.Op != "listen" {
		t.Errorf("a taken port: %v", err)
	}
	if _, err := api.Open(t.Context(), api.Config{Address: "127.0.0.1:0", Certificate: file(t, "x"), Key: file(t, "y")}); err == nil {
		t.Error("nonsense was taken for a certificate")
	}
}
