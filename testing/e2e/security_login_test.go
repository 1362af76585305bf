package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/idworker/idworker/testing/natstest"
)

// access is a way to log in to a NATS server.
type access struct {
	server func(*server.Options)
	args   []string // of every command; %s is the server's address, %c the folder of contexts
	env    []string
}

// TestEveryLoginWorksAndStaysSecret: with each way to log in, a worker serves, a tag is
// created, and callers get IDs. Nobody gets in without. No password shows on a command line
// or in a log.
func TestEveryLoginWorksAndStaysSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed, public := newSeed(t, nkeys.PrefixByteUser)
	tlsOptions, client := newTLS(t, dir)
	operator, creds := newOperator(t)
	needsPassword := func(o *server.Options) { o.Username, o.Password = "alice", canary }
	for name, a := range map[string]access{
		"user, password in the environment": {needsPassword, []string{"--server", "%s", "--user", "alice"}, []string{"NATS_PASSWORD=" + canary}},
		"user, password in a file":          {needsPassword, []string{"--server", "%s", "--user", "alice", "--password-file", write(t, dir, "password", canary+"\n")}, nil},
		"URL in the environment":            {needsPassword, nil, []string{"NATS_URL=nats://alice:" + canary + "@%s"}},
		"nkey":                              {func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }, []string{"--server", "%s", "--nkey", write(t, dir, "seed", seed)}, nil},
		"credentials":                       {operator, []string{"--server", "%s"}, []string{"NATS_CREDS=" + write(t, dir, "worker.creds", creds)}},
		"TLS files":                         {tlsOptions, append([]string{"--server", "tls://%s", "--inbox-prefix", "_INBOX_worker"}, client...), nil},
		"context":                           {needsPassword, nil, []string{"NATS_CONTEXT=production", "XDG_CONFIG_HOME=%c"}},
		"context with another login": {needsPassword, []string{"--context", "stale", "--server", "%s", "--user", "alice"},
			[]string{"NATS_PASSWORD=" + canary, "XDG_CONFIG_HOME=%c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := strings.TrimPrefix(natstest.Start(t, a.server).URL(), "nats://")
			config := t.TempDir()
			contexts := filepath.Join(config, "nats", "context")
			if err := os.MkdirAll(contexts, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, contexts, "production.json", fmt.Sprintf(`{"url":"nats://%s","user":"alice","password":%q,"inbox_prefix":"_INBOX_x"}`, address, canary))
			write(t, contexts, "stale.json", fmt.Sprintf(`{"url":"nats://127.0.0.1:1","nkey":%q}`, filepath.Join(dir, "seed")))
			fill := strings.NewReplacer("%s", address, "%c", config)
			with := settings{}
			for _, e := range a.env {
				with.env = append(with.env, fill.Replace(e))
			}
			var args []string
			for _, arg := range a.args {
				args = append(args, fill.Replace(arg))
			}
			w := with.launch(t, append([]string{"serve", "--log-level", "debug"}, args...)...)
			w.serving()
			seen := []string{cmdline(t, w)}
			for _, command := range [][]string{{"tag", "create", "order"}, {"get", "--snowflake"}, {"tag", "ls"}, {"workers"}} {
				r := with.run(t, append(command, args...)...)
				if r.code != exitOK {
					t.Errorf("%v: %+v", command, r)
				}
				seen = append(seen, r.stdout, r.stderr)
			}
			if r := run(t, "get", "--server", address, "--snowflake"); r.code == exitOK {
				t.Error("got an ID without a login")
			}
			w.stop(syscall.SIGTERM)
			if all := strings.Join(append(seen, w.stdout.String(), w.stderr.String()), "\n"); strings.Contains(all, canary) {
				t.Errorf("the password shows in\n%s", all)
			}
		})
	}
}

// cmdline is a process's command line, which everybody can read.
func cmdline(t *testing.T, p *process) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	if err != nil && !os.IsNotExist(err) { // not every system has it
		t.Fatal(err)
	}
	return string(data)
}

// write makes a file that only its owner can read.
func write(t *testing.T, dir, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newSeed(t *testing.T, kind nkeys.PrefixByte) (seed, public string) {
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

// newOperator returns what makes a server trust an operator with one account, and the
// credentials of a user of that account.
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

// newTLS returns what makes a server demand client certificates, and the flags with
// the files of a client that has one.
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

// certificate makes a certificate for 127.0.0.1, signed by a CA or by itself.
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
