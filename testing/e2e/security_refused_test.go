package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// confWith is nats.conf with parts of it replaced.
func confWith(t testing.TB, oldNew ...string) (path string) {
	t.Helper()
	data, err := os.ReadFile(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("nats.conf has no %s", oldNew[i])
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	path = filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMissingIsNamed: a process that may not create what is missing says at once what it is
// and who can create it; one that lacks another right names that.
func TestMissingIsNamed(t *testing.T) {
	t.Parallel()
	const cure = "idworker provision"
	fails := func(s settings, wants []string, args ...string) {
		t.Helper()
		r := s.run(t, args...)
		for _, want := range wants {
			if r.code == 0 || !strings.Contains(r.stderr, want) {
				t.Errorf("idworker %s: exit code %d and %q, want %q", strings.Join(args, " "), r.code, r.stderr, want)
			}
		}
	}
	bare := startProduction(t, natsConf)
	fails(bare.as("worker"), []string{"stream IDS_LOAD is missing", `"$JS.API.STREAM.CREATE.IDS_LOAD"`, cure}, "serve", "--role", "worker")
	fails(bare.as("loader"), []string{"bucket ids_segments is missing", `"$JS.API.INFO"`, cure}, "serve", "--role", "loader")
	fails(bare.as("caller"), []string{`"$JS.API.STREAM.INFO.IDS_LOAD"`}, "provision")
	fails(bare.as("order"), []string{`"ids.segment.invoice"`}, "get", "invoice")
	stranger := bare.as("order")
	stranger.env[1] = "IDWORKER_INBOX_PREFIX=_INBOX_caller.any"
	fails(stranger, []string{`"_INBOX_caller.any.`}, "get", "order")

	// Refused later than the first requests: the subscription in the queue group.
	dumb := startProduction(t, confWith(t, `"ids.segment.> ids", `, ""))
	dumb.provision()
	fails(dumb.as("worker"), []string{`"ids.segment.>"`}, "serve", "--role", "worker")
}

// TestNobodyActsForAnother: users with few rights cannot have others, or the server, write
// for them. A reply goes wherever the caller wants it, with the rights of whoever answers.
func TestNobodyActsForAnother(t *testing.T) {
	t.Parallel()
	server := startProduction(t, natsConf)
	server.provision()
	server.serve("worker", "--role", "worker")
	server.serve("loader", "--role", "loader")
	server.must("admin", "tag", "create", "order", "--step", "1000")
	natstest.Eventually(t, "tag order is served", func() bool {
		return server.as("caller").run(t, "get", "order").code == 0
	})
	enrichByHand(t, server.connect("orders-admin"), server.connect("enricher"))
	state := func() string {
		return server.must("admin", "tag", "ls").stdout + server.must("orders-admin", "provision", "--part", "enrich").stdout
	}
	before := state()

	// A forged counter in the enrichers' bucket, as a thief would put it there.
	enricher := server.connect("enricher")
	if err := enricher.Publish("$KV.ids_enrich.order", []byte(`{"max_id":1,"step":1000}`)); err != nil {
		t.Fatal(err)
	}
	flush(t, enricher)
	targets := []string{"$KV.ids_segments.order", "$KV.ids_tags.order", "$JS.API.STREAM.DELETE.KV_ids_segments", "ids.grant.X", "_INBOX_worker.x"}
	for _, target := range targets {
		for _, ask := range []string{"$JS.API.DIRECT.GET.KV_ids_enrich.$KV.ids_enrich.order", "$JS.API.STREAM.INFO.KV_ids_enrich", "ids.segment.order", "ids.segment.none"} {
			if err := enricher.PublishRequest(ask, target, nil); err != nil {
				t.Fatal(err)
			}
		}
		caller := server.connect("caller")
		for _, ask := range []string{"ids.segment.order", "ids.segment.none", "ids.snowflake"} {
			if err := caller.PublishRequest(ask, target, nil); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, caller)
	}
	// Once a later request is answered, all of that has been handled.
	flush(t, enricher)
	for _, name := range []string{"enricher", "caller"} {
		server.must(name, "get", "order")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := enricher.RequestWithContext(ctx, "$JS.API.STREAM.INFO.KV_ids_enrich", nil); err != nil {
		t.Fatal(err)
	}
	if after := state(); after != before {
		t.Errorf("somebody wrote who may not:\n%s\nwas:\n%s", after, before)
	}
}

// TestTLSBlockDemandsTLS uncomments the TLS block: then nobody gets in without TLS.
func TestTLSBlockDemandsTLS(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	pair := certificate.TLS.Certificates[0]
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, cert, "CERTIFICATE", pair.Certificate[0])
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "PRIVATE KEY", der)

	conf := confWith(t)
	data, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	begin := strings.Index(text, "#tls {")
	end := begin + strings.Index(text[begin:], "#}") + len("#}")
	block := regexp.MustCompile(`(?m)^#`).ReplaceAllString(text[begin:end], "")
	block = strings.NewReplacer("$IDS_TLS_CERT", `"`+cert+`"`, "$IDS_TLS_KEY", `"`+key+`"`).Replace(block)
	if err := os.WriteFile(conf, []byte(text[:begin]+block+text[end:]), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startProduction(t, conf)

	u := userNamed("caller")
	if conn, err := nats.Connect("tls://"+server.address, nats.UserInfo(u.Name, password(u))); err == nil {
		conn.Close()
		t.Error("connected to a server whose certificate nobody vouches for")
	}
	conn := server.connect("caller", nats.RootCAs(cert))
	if state, err := conn.TLSConnectionState(); err != nil || !state.HandshakeComplete {
		t.Errorf("no TLS: %v", err)
	}
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
