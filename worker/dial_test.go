package worker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestPlaceFollowsToDiscoveredServer: when the only configured server dies, an
// endpoint's connection moves to a discovered server, like the process's
// connection, and a new one is made there. With TLS, that server has no name
// but an address, which its certificate does not include.
func TestPlaceFollowsToDiscoveredServer(t *testing.T) {
	certificate, roots := localhostCertificate(t)
	for _, c := range []struct {
		scheme string
		server *tls.Config
		client []nats.Option
	}{
		{"nats", nil, nil},
		{"tls", &tls.Config{Certificates: []tls.Certificate{certificate}}, []nats.Option{nats.Secure(&tls.Config{RootCAs: roots})}},
	} {
		t.Run(c.scheme, func(t *testing.T) {
			servers := startPair(t, c.server)
			_, port, _ := strings.Cut(servers[0].URL(), "127.0.0.1:")
			options := append(c.client, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.Timeout(natstest.Patience))
			conn, err := nats.Connect(c.scheme+"://localhost:"+port, options...)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, second, _ := strings.Cut(servers[1].URL(), "://")
			natstest.Eventually(t, "the connection is told of the other server", func() bool {
				return slices.Contains(conn.DiscoveredServers(), c.scheme+"://"+second)
			})
			place, err := dialLike(conn, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer place.Close()
			servers[0].Stop()
			for what, moving := range map[string]*nats.Conn{"the process's connection": conn, "the place": place} {
				natstest.Eventually(t, what+" moves", func() bool { return moving.ConnectedServerName() == "n1" })
			}
			checkLike(t, conn)
			servers[0].Restart()
			// To the same server, not to the configured one.
			checkLike(t, conn)
		})
	}
}

// checkLike fails the test if a new connection is not to the server of another,
// or does not have the same servers from the same sources.
func checkLike(t *testing.T, conn *nats.Conn) {
	t.Helper()
	like, err := dialLike(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer like.Close()
	if got, want := like.ConnectedServerName(), conn.ConnectedServerName(); got != want {
		t.Errorf("connected to %s, want %s", got, want)
	}
	natstest.Eventually(t, "both know the same servers", func() bool {
		return slices.Equal(slices.Sorted(slices.Values(like.Servers())), slices.Sorted(slices.Values(conn.Servers()))) &&
			slices.Equal(slices.Sorted(slices.Values(like.DiscoveredServers())), slices.Sorted(slices.Values(conn.DiscoveredServers())))
	})
}

// startPair runs a cluster of two servers without JetStream, which survives the
// loss of a server.
func startPair(t *testing.T, config *tls.Config) (servers [2]*natstest.Node) {
	t.Helper()
	var routes []*url.URL
	for range servers {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", freeport.Get(t))})
	}
	for i := range servers {
		servers[i] = natstest.Start(t, func(o *server.Options) {
			o.JetStream, o.ServerName, o.Routes = false, fmt.Sprintf("n%d", i), routes
			o.Cluster = server.ClusterOpts{Name: "pair", Host: "127.0.0.1"}
			_, _ = fmt.Sscanf(routes[i].Port(), "%d", &o.Cluster.Port)
			o.TLSConfig, o.TLSTimeout = config, 5
		})
	}
	return servers
}

// localhostCertificate makes a certificate with a name and no address.
func localhostCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
