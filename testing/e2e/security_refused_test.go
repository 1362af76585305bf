package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
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

// nobodyActsForAnother: users with few rights cannot have others, or the
// server, write for them. A reply goes to the subject that the caller chose,
// with the rights of the answering process.
func (s *site) nobodyActsForAnother(t *testing.T) {
	before, streams := s.counters(), s.must("orders-admin", "provision", "--part", "enrich").stdout

	// A forged counter in the enrichers' bucket, as a thief would put it there.
	enricher := s.connect("enricher")
	if err := enricher.Publish("$KV.ids_enrich.order", []byte(`{"next":1,"step":1000}`)); err != nil {
		t.Fatal(err)
	}
	flush(t, enricher)
	targets := []string{"$KV.ids_register.order", "$JS.API.STREAM.DELETE.KV_ids_register", "ids.grant.X", "_INBOX_worker.x"}
	for _, target := range targets {
		for ask, body := range map[string]string{
			"$JS.API.STREAM.MSG.GET.KV_ids_enrich": `{"last_by_subj":"$KV.ids_enrich.order"}`,
			"$JS.API.STREAM.INFO.KV_ids_enrich":    "", "ids.segment.order": "", "ids.segment.none": "",
		} {
			if err := enricher.PublishRequest(ask, target, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		caller := s.connect("caller")
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
		s.as(name).succeeds(t, "get", "order")
	}
	if _, err := enricher.Request("$JS.API.STREAM.INFO.KV_ids_enrich", nil, natstest.Patience); err != nil {
		t.Fatal(err)
	}
	after := s.counters()
	for tag, is := range before {
		if now := after[tag]; now.step != is.step || now.next < is.next || len(after) != len(before) {
			t.Errorf("somebody wrote who may not: %v, was %v", after, before)
		}
	}
	if now := s.must("orders-admin", "provision", "--part", "enrich").stdout; now != streams {
		t.Errorf("somebody wrote who may not:\n%s\nwas:\n%s", now, streams)
	}
}

// wrongInbox: a caller's requests name an inbox to which no worker may reply,
// thousands of times a second. Workers start beside it, serve others, and log
// the caller's mistake once.
func (s *site) wrongInbox(t *testing.T) {
	wrong := s.connect("caller")
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	t.Cleanup(func() { close(stop); asking.Wait() })
	asking.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for i := range 50 {
				// A JetStream request, too, would be another process's.
				for _, inbox := range []string{"_INBOX.x", "$JS.API.STREAM.INFO.OTHER"} {
					_ = wrong.PublishRequest("ids.segment.order", fmt.Sprint(inbox, ".", n*50+i), nil)
				}
			}
			time.Sleep(20 * time.Millisecond) // 5,000 a second
		}
	})
	for range tier.Pick(2, 12) {
		w := s.serve("worker", "--role", "worker")
		s.as("order").succeeds(t, "get", "order")
		w.stop(syscall.SIGTERM)
		if n := w.says("reply to a caller denied"); n > 2 { // of each connection, once a minute
			t.Errorf("logged the caller's mistake %d times", n)
		}
	}
}

type counter struct{ step, next int64 }

// counters are the figures of tag ls.
func (p *production) counters() map[string]counter {
	p.t.Helper()
	all := make(map[string]counter)
	for _, line := range p.must("admin", "tag", "ls").lines()[1:] {
		var tag string
		var c counter
		if _, err := fmt.Sscan(line, &tag, &c.step, &c.next); err != nil {
			p.t.Fatalf("tag ls says %q: %v", line, err)
		}
		all[tag] = c
	}
	return all
}

// TestVariantsOfNatsConf: variants of the repository's nats.conf.
func TestVariantsOfNatsConf(t *testing.T) {
	t.Parallel()
	t.Run("TLS", tlsBlock)
	t.Run("a right is missing", missingRight)
	t.Run("unsynced with shared storage", unsynced) // a comma in the path would be the configuration's
	t.Run("full account", fullAccount)
	t.Run("account of a service", accountOfService)
}

// accountOfService: a service with the account that docs/security.md shows gets
// IDs of its tag. With all the connections that it may have, it keeps only
// itself out.
func accountOfService(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```conf\nBILLING {")
	account, rest, shown := strings.Cut(rest, "```")
	const imported, exported = `{ stream: { account: BILLING, subject: "ids.segment.invoice" } }`, "[CALLERS, BILLING]"
	if !shown || !strings.Contains(rest, imported) || !strings.Contains(rest, exported) {
		t.Fatal("docs/security.md shows no account of a service")
	}
	const others = `{ stream: { account: CALLERS, subject: "ids.snowflake" } }`
	p := &production{t: t, address: freeport.Address(t), data: t.TempDir(), env: []string{"IDS_BILLING_PASSWORD=secret-of-billing"}}
	p.conf = confWith(t, others, others+"\n"+imported, `"_INBOX_caller.>", accounts: [CALLERS]`, `"_INBOX_caller.>", accounts: `+exported,
		"\n  CALLERS {", "\nBILLING {"+account+"\n  CALLERS {")
	p.start()
	p.provision()
	p.must("admin", "tag", "create", "invoice")
	p.serve("loader", "--role", "loader")
	p.serve("worker", "--role", "worker")

	billing := roles.User{Name: "billing", Inbox: "_INBOX_caller.billing"}
	as := settings{env: []string{"NATS_URL=nats://billing:" + password(billing) + "@" + p.address, "IDWORKER_INBOX_PREFIX=" + billing.Inbox}}
	as.succeeds(t, "get", "invoice")
	fillAccount(t, p, billing, 100)
	p.as("caller").succeeds(t, "get", "invoice")
	if r := as.run(t, "get", "invoice"); !strings.Contains(r.stderr, "maximum account active connections exceeded") {
		t.Errorf("one more connection: %+v", r)
	}
}

// missingRight: a worker that lacks the right to subscribe in its queue group,
// which is refused later than its first requests, names it.
func missingRight(t *testing.T) {
	p := startProduction(t, confWith(t, `"ids.segment.> ids", `, ""))
	p.provision()
	w := p.as("worker").launch(t, "serve", "--role", "worker")
	if code := w.wait(); code != exitFailure || !strings.Contains(w.stderr.String(), `"ids.segment.>"`) || !strings.Contains(w.stderr.String(), "idworker rights prints those of each role") {
		t.Errorf("exit code %d:\n%s", code, w.stderr.Tail())
	}
}

// unsynced: the doctor reports a server that does not sync each write, unless
// that is allowed, and an account without storage of its own.
func unsynced(t *testing.T) {
	p := startProduction(t, confWith(t, "sync_interval: always", "sync_interval: 2m", "{ max_memory: 128MB, max_file: 3GB }", "enabled"))
	p.provision()
	sick(t, p.as("worker"), "worker", "sync: sync_interval is not always")
	r := p.as("admin").run(t, "doctor", "--role", "admin", "--allow-unsynced")
	if n := strings.Count(r.stdout, "FAIL"); n != 2 || !strings.Contains(r.stdout, "FAIL  workers: ") || !strings.Contains(r.stdout, "FAIL  loaders: ") {
		t.Errorf("doctor finds more wrong than that nobody serves yet:\n%s", r.stdout)
	}
	for _, line := range []string{"ok    sync: sync_interval is not always, as --allow-unsynced accepts", "warn  storage: ", "max_file"} {
		if !strings.Contains(r.stdout, line) {
			t.Errorf("doctor (%d) does not say %q:\n%s", r.code, line, r.stdout)
		}
	}
}

// accountExceeded is the server's code for an account whose storage is used up.
const accountExceeded = jetstream.ErrorCode(server.JSAccountResourcesExceededErr)

// fullAccount: a service fills the storage of its account until the server
// refuses more. Loads, new tags, new streams of the installation and worker IDs
// go on.
func fullAccount(t *testing.T) {
	p := startProduction(t, confWith(t, "GB", "0MB")) // a hundredth
	p.provision()
	p.serve("loader", "--role", "loader")
	js := natstest.JetStream(p.t, p.connect("orders-admin"))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: sourceStream, Subjects: []string{"orders.raw.>"}}); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 900_000)
	publish := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		_, err := js.Publish(ctx, "orders.raw.x", big)
		return err
	}
	// It is full when the server reports that, not when it refuses for another
	// reason.
	isFull := func(err error) bool {
		var refused *jetstream.APIError
		return errors.As(err, &refused) && refused.ErrorCode == accountExceeded
	}
	if err := publish(); err != nil {
		t.Fatalf("the account takes nothing: %v", err)
	}
	natstest.Eventually(t, "the account is full", func() bool { return isFull(publish()) })

	p.serve("worker", "--role", "worker") // claims a worker ID
	client := p.connect("caller")
	for i := range 10 {
		tag := fmt.Sprint("tag", i)
		p.must("admin", "tag", "create", tag, "--step", "1")
		for range 3 {
			requester{conn: client}.next(t, tag)
		}
	}
	p.as("caller").succeeds(t, "get", "--snowflake")
	if err := publish(); !isFull(err) {
		t.Errorf("the account is not full any more: %v", err)
	}
	if r := p.as("admin").succeeds(t, "doctor", "--role", "admin"); !strings.Contains(r.stdout, "ok    storage: ") {
		t.Errorf("doctor:\n%s", r.stdout)
	}
}

// tlsBlock uncomments the TLS block: then there is no login without TLS.
func tlsBlock(t *testing.T) {
	pair := newPair(t, t.TempDir())
	conf := confWith(t)
	data, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	begin := strings.Index(text, "#tls {")
	end := begin + strings.Index(text[begin:], "#}") + len("#}")
	block := regexp.MustCompile(`(?m)^#`).ReplaceAllString(text[begin:end], "")
	block = strings.NewReplacer("$IDS_TLS_CERT", `"`+pair.cert+`"`, "$IDS_TLS_KEY", `"`+pair.key+`"`).Replace(block)
	if err := os.WriteFile(conf, []byte(text[:begin]+block+text[end:]), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startProduction(t, conf)

	u := roles.UserNamed("caller")
	if conn, err := nats.Connect("tls://"+server.address, nats.UserInfo(u.Name, password(u))); err == nil {
		conn.Close()
		t.Error("connected to a server whose certificate nobody vouches for")
	}
	conn := server.connect("caller", nats.RootCAs(pair.cert))
	if state, err := conn.TLSConnectionState(); err != nil || !state.HandshakeComplete {
		t.Errorf("no TLS: %v", err)
	}
}
