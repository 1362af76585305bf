package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// access is a way to log in to a NATS server.
type access struct {
	server func(*server.Options)
	args   []string // of every command; %s is the server's address, %c the folder of contexts
	env    []string
}

// write makes a file that only its owner can read.
func write(t testing.TB, dir, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newSeed(t testing.TB, kind nkeys.PrefixByte) (seed, public string) {
	t.Helper()
	pair, err := nkeys.CreatePair(kind)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return string(data), public
}

// newOperator returns a server option that trusts an operator with a single
// account, and the credentials of a user of that account.
func newOperator(t *testing.T) (func(*server.Options), string) {
	t.Helper()
	pair := func(seed string) nkeys.KeyPair {
		p, err := nkeys.FromSeed([]byte(seed))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	encode := func(c jwt.Claims, by string) string {
		token, err := c.Encode(pair(by))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	operatorSeed, operator := newSeed(t, nkeys.PrefixByteOperator)
	accountSeed, account := newSeed(t, nkeys.PrefixByteAccount)
	_, system := newSeed(t, nkeys.PrefixByteAccount)
	userSeed, user := newSeed(t, nkeys.PrefixByteUser)
	claims := jwt.NewAccountClaims(account)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	accounts := map[string]string{
		account: encode(claims, operatorSeed),
		system:  encode(jwt.NewAccountClaims(system), operatorSeed),
	}
	creds, err := jwt.FormatUserConfig(encode(jwt.NewUserClaims(user), accountSeed), []byte(userSeed))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *server.Options) {
		resolver := &server.MemAccResolver{}
		for key, token := range accounts {
			if err := resolver.Store(key, token); err != nil {
				t.Fatal(err)
			}
		}
		o.TrustedKeys, o.AccountResolver, o.SystemAccount = []string{operator}, resolver, system
	}, string(creds)
}

// newTLS returns a server option that requires client certificates, and the
// flags with the files of a client that has one.
func newTLS(t *testing.T, dir string) (options func(*server.Options), client []string) {
	t.Helper()
	caKey, ca := certificate(t, "ca", nil, nil)
	serverKey, cert := certificate(t, "server", ca, caKey)
	clientKey, clientCert := certificate(t, "client", ca, caKey)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	options = func(o *server.Options) {
		o.TLS, o.TLSVerify = true, true
		o.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: serverKey}},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
			MinVersion:   tls.VersionTLS12,
		}
	}
	key, err := x509.MarshalECPrivateKey(clientKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		return write(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	return options, []string{
		"--tlsca", file("ca.pem", "CERTIFICATE", ca.Raw),
		"--tlscert", file("cert.pem", "CERTIFICATE", clientCert.Raw),
		"--tlskey", file("key.pem", "EC PRIVATE KEY", key),
	}
}

// certificate makes a certificate for 127.0.0.1, signed by a CA or self-signed.
func certificate(t *testing.T, name string, ca *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         ca == nil, BasicConstraintsValid: true,
	}
	if ca == nil {
		ca, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}
