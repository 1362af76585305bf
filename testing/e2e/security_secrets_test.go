package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// natsCanary is a password or token of NATS; canary is the database's.
const natsCanary = "Canary-nats-93d7"

// secrets are strings that must not show anywhere, by kind.
type secrets map[string]string

// spy looks for secrets in everything that others can read of idworker.
type spy struct {
	t       testing.TB
	secrets secrets
}

// reads fails the test if a text has a secret in it.
func (s spy) reads(where, text string) {
	s.t.Helper()
	for what, secret := range s.secrets {
		before, after, found := strings.Cut(text, secret)
		if found {
			s.t.Errorf("%s shows the %s: …%s%s%s…", where, what, before[max(0, len(before)-200):], secret, after[:min(200, len(after))])
		}
	}
}

// watches reads all that a process has shown so far.
func (s spy) watches(p *process) {
	s.t.Helper()
	s.reads(p.name+": stdout", p.stdout.String())
	s.reads(p.name+": stderr", p.stderr.String())
	s.reads(p.name+": the command line", p.commandLine())
}

// panics ends a process the way a fatal error of the Go runtime does, with the
// traces of all goroutines.
func (s spy) panics(p *process, by syscall.Signal) {
	s.t.Helper()
	if line := p.commandLine(); line != "" && !strings.Contains(line, "--log-level") { // not every system has it
		s.t.Errorf("that is no command line: %q", line)
	}
	p.signal(by)
	p.wait()
	if !strings.Contains(p.stderr.String(), "\ngoroutine ") {
		s.t.Errorf("%s: no traces after %v", p.name, by)
	}
	s.watches(p)
}

// searches reads all that a server has stored.
func (s spy) searches(folder string) {
	s.t.Helper()
	stored := false
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		stored = stored || bytes.Contains(data, []byte("ids_config"))
		s.reads(path, string(data))
		return err
	})
	if err != nil || !stored {
		s.t.Errorf("search %s: %v, our buckets found: %v", folder, err, stored)
	}
}

// asks reads the services' reports about themselves.
func (s spy) asks(conn *nats.Conn) {
	s.t.Helper()
	for _, verb := range []micro.Verb{micro.PingVerb, micro.InfoVerb, micro.StatsVerb} {
		reply, err := conn.Request("$SRV."+verb.String(), nil, natstest.Patience)
		if err != nil {
			s.t.Fatalf("%s: %v", verb, err)
		}
		s.reads(verb.String(), string(reply.Data))
	}
}

// browses reads the pages of a process.
func (s spy) browses(address string) {
	s.t.Helper()
	for _, path := range []string{"/metrics", "/readyz", "/healthz", "/debug/pprof/cmdline"} {
		code, body := fetch(s.t.(*testing.T), address, path)
		if code != 200 && !strings.HasPrefix(path, "/debug") {
			s.t.Errorf("%s%s: %d", address, path, code)
		}
		s.reads(address+path, body)
	}
}

// secretLogin is a way to log in that has a secret.
type secretLogin struct {
	access         // its %s is the server's address
	secret  string // a string of it
	connect []nats.Option
	wrong   func(*server.Options) // a server with another secret; may be nil
}

// at are the settings and arguments for a server.
func (l secretLogin) at(t testing.TB, url string) (settings, []string) {
	t.Helper()
	address := strings.TrimPrefix(url, "nats://")
	config := t.TempDir()
	contexts := filepath.Join(config, "nats", "context")
	if err := os.MkdirAll(contexts, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, contexts, "production.json", fmt.Sprintf(`{"url":"nats://%s","user":"alice","password":%q,"inbox_prefix":"_INBOX_x"}`, address, natsCanary))
	seed, _ := newSeed(t, nkeys.PrefixByteUser)
	write(t, contexts, "stale.json", fmt.Sprintf(`{"url":"nats://127.0.0.1:1","nkey":%q}`, write(t, config, "stale", seed)))
	fill := strings.NewReplacer("%s", address, "%c", config)
	s := settings{dir: config}
	for _, e := range l.env {
		s.env = append(s.env, fill.Replace(e))
	}
	var args []string
	for _, a := range l.args {
		args = append(args, fill.Replace(a))
	}
	return s, args
}

func secretLogins(t *testing.T) map[string]secretLogin {
	t.Helper()
	dir := t.TempDir()
	seed, public := newSeed(t, nkeys.PrefixByteUser)
	seedFile := write(t, dir, "seed", seed)
	operator, creds := newOperator(t)
	pair, err := nkeys.ParseDecoratedNKey([]byte(creds))
	if err != nil {
		t.Fatal(err)
	}
	credsSeed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	credsFile := write(t, dir, "worker.creds", creds)
	tlsOptions, tlsFiles := newTLS(t, dir)
	key, err := os.ReadFile(tlsFiles[5])
	if err != nil {
		t.Fatal(err)
	}
	password := func(o *server.Options) { o.Username, o.Password = "alice", natsCanary }
	_, stranger := newSeed(t, nkeys.PrefixByteUser)
	otherNkey := func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: stranger}} }
	other := func(o *server.Options) { o.Username, o.Password = "alice", "another" }
	asAlice := []nats.Option{nats.UserInfo("alice", natsCanary)}
	nkey, err := nats.NkeyOptionFromSeed(seedFile)
	if err != nil {
		t.Fatal(err)
	}
	user := []string{"--server", "%s", "--user", "alice"}
	return map[string]secretLogin{
		"password": {access{password, user, []string{"NATS_PASSWORD=" + natsCanary}}, natsCanary, asAlice, other},
		"password file": {access{password, append(user, "--password-file", write(t, dir, "password", natsCanary+"\n")), nil},
			natsCanary, asAlice, other},
		"URL":     {access{password, nil, []string{"NATS_URL=nats://alice:" + natsCanary + "@%s"}}, natsCanary, asAlice, other},
		"context": {access{password, nil, []string{"NATS_CONTEXT=production", "XDG_CONFIG_HOME=%c"}}, natsCanary, asAlice, other},
		"context with another login": {access{password, []string{"--context", "stale", "--server", "%s", "--user", "alice"},
			[]string{"NATS_PASSWORD=" + natsCanary, "XDG_CONFIG_HOME=%c"}}, natsCanary, asAlice, other},
		"token": {access{func(o *server.Options) { o.Authorization = natsCanary }, nil, []string{"NATS_URL=nats://" + natsCanary + "@%s"}},
			natsCanary, []nats.Option{nats.Token(natsCanary)}, other},
		"nkey": {access{func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }, []string{"--server", "%s", "--nkey", seedFile}, nil},
			seed, []nats.Option{nkey}, otherNkey},
		"credentials": {access{operator, []string{"--server", "%s"}, []string{"NATS_CREDS=" + credsFile}},
			string(credsSeed), []nats.Option{nats.UserCredentials(credsFile)}, otherNkey},
		"TLS key": {access{tlsOptions, append([]string{"--server", "tls://%s"}, tlsFiles...), nil},
			strings.Split(string(key), "\n")[1], []nats.Option{nats.RootCAs(tlsFiles[1]), nats.ClientCert(tlsFiles[3], tlsFiles[5])}, nil},
	}
}

// commands are those that connect, and that end if that fails.
var commands = []string{"serve", "get --snowflake", "doctor"}

// fails runs commands that cannot succeed. serve may wait for its database, and
// those that serve for their NATS server.
func (s spy) fails(with settings, args []string, commands ...string) {
	s.t.Helper()
	for _, command := range commands {
		p := with.launch(s.t, slices.Concat(strings.Fields(command), args)...)
		s.reads(p.name+": the command line", p.commandLine())
		if strings.HasPrefix(command, "serve") || strings.HasPrefix(command, "enrich") {
			natstest.Eventually(s.t, p.name+" ends or complains", func() bool {
				return p.hasEnded() || p.says("waiting for a NATS server") > 0 || p.says("database does not answer") > 0 && p.says("serving") > 0
			})
			p.signal(syscall.SIGQUIT)
		}
		if code := p.wait(); code == exitOK || p.stdout.String()+p.stderr.String() == "" {
			s.t.Errorf("idworker %s with %v: exit code %d, says %s", p.name, with.env, code, p.stdout.String()+p.stderr.Tail())
		}
		s.watches(p)
	}
}

// TestSecretsStaySecret: with each way to log in, and the password of a
// database, all commands run; then the server goes away, and comes back with
// another password. Their output, exports and files show no secret, nor do the
// traces of a panic. There is no login without a secret.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	var dsns []string
	for _, d := range databases {
		db := d.with(t, "'order', 1, 100")
		dsns = append(dsns, db.DSNFor(d.user(t, db, "w", "SELECT, INSERT, UPDATE"), canary))
	}
	n := 0
	for name, login := range secretLogins(t) {
		n++
		t.Run(name, func(t *testing.T) { testSecrets(t, login, name, dsns[n%2], n/2%2 == 0) })
	}
	t.Run("failures", secretsInFailures)
}

func testSecrets(t *testing.T, login secretLogin, tag, dsn string, inFile bool) {
	spy := spy{t, secrets{"NATS secret": login.secret, "password of the database": canary}}
	ns := natstest.Start(t, login.server)
	s, args := login.at(t, ns.URL())
	stored := s
	storeArgs := args
	if inFile {
		storeArgs = append(storeArgs, "--store-file", secretFile(t, dsn))
	} else {
		stored.env = append(stored.env, "IDWORKER_STORE="+dsn)
	}
	conn := ns.Connect(t, login.connect...)
	js := natstest.JetStream(t, conn)
	for _, c := range []jetstream.StreamConfig{sourceConfig, targetConfig} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}

	// succeeds runs a command, which has to.
	succeeds := func(s settings, args []string, command ...string) {
		t.Helper()
		p := s.launch(t, append(command, args...)...)
		if code := p.wait(); code != exitOK {
			t.Errorf("%v: exit code %d: %s", command, code, p.stderr.Tail())
		}
		spy.watches(p)
	}
	addresses := []string{freeport.Address(t), freeport.Address(t)}
	serve := stored.launch(t, append([]string{"serve", "--log-level", "debug", "--http", addresses[0]}, storeArgs...)...)
	serve.serving()
	succeeds(stored, storeArgs, "provision")
	succeeds(stored, storeArgs, "tag", "create", strings.ReplaceAll(tag, " ", "-"))
	succeeds(stored, storeArgs, "tag", "ls")
	dial(t, ns.URL(), login.connect...).next(t, "order")
	succeeds(s, args, "get", "order")
	s.succeeds(t, append([]string{"get", "--snowflake"}, args...)...)
	if r := run(t, "get", "--server", ns.URL(), "--snowflake"); r.code == exitOK {
		t.Error("got an ID without a login")
	}
	succeeds(s, args, "workers")
	examined := stored.launch(t, append([]string{"doctor"}, storeArgs...)...)
	examined.wait()
	// Where lines begin: the random name of a server may have these letters.
	if found := "\n" + examined.stdout.String(); strings.Count(found, "\nFAIL  ") != strings.Count(found, "\nFAIL  store durability: ") {
		t.Errorf("doctor finds more than a database that does not sync:\n%s", examined.stdout.String())
	}
	spy.watches(examined)
	enrich := s.launch(t, append([]string{"enrich", "--log-level", "debug", "--http", addresses[1],
		"--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--id", "segment:order"}, args...)...)
	natstest.Eventually(t, "the enricher runs", func() bool { return enrich.says("enriching\t") > 0 || enrich.hasEnded() })
	if _, err := js.PublishMsg(t.Context(), event(1)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "an event is enriched", func() bool {
		stream, err := js.Stream(t.Context(), "READY")
		return err == nil && stream.CachedInfo().State.Msgs > 0
	})

	for _, address := range addresses {
		spy.browses(address)
	}
	spy.asks(conn)
	folder := ns.Running().JetStreamConfig().StoreDir
	spy.searches(folder)

	ns.Stop()
	awaits := func(message string) {
		t.Helper()
		natstest.Eventually(t, "both say "+message, func() bool {
			return strings.Contains(serve.stderr.String(), message) && strings.Contains(enrich.stderr.String(), message)
		})
	}
	awaits("NATS connection lost")
	if login.wrong != nil {
		port := portOf(t, ns.URL())
		natstest.Start(t, login.wrong, func(o *server.Options) { o.Port = port })
		awaits("nats: authorization violation")
	}
	spy.panics(serve, syscall.SIGQUIT)
	spy.panics(enrich, syscall.SIGABRT)
}

func portOf(t *testing.T, url string) (port int) {
	t.Helper()
	if _, err := fmt.Sscanf(url, "nats://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}

// secretsInFailures: errors never show the secrets that were part of the input.
func secretsInFailures(t *testing.T) {
	spy := spy{t, secrets{"NATS secret": natsCanary, "password of the database": canary}}
	open := natstest.Start(t).URL()
	for name, login := range secretLogins(t) {
		if login.secret != natsCanary {
			spy.secrets[name] = login.secret
		}
		if login.wrong != nil {
			s, args := login.at(t, natstest.Start(t, login.wrong).URL())
			spy.fails(s, args, commands...)
		}
	}
	in := func(env ...string) settings { return settings{dir: t.TempDir(), env: env} }
	rubbish := write(t, t.TempDir(), "rubbish", "-----BEGIN USER NKEY SEED-----\n"+natsCanary+"\n------END USER NKEY SEED------\nS"+natsCanary+"\n")
	for _, s := range []settings{
		in("NATS_URL=nats://alice:" + natsCanary + "@host:port"),
		in("NATS_URL=nats://alice:" + natsCanary + "/x@127.0.0.1:1"),
		in("NATS_URL=nats://alice:1/" + natsCanary + "@127.0.0.1:1"),
		in("NATS_URL=nats://alice:1#" + natsCanary + "@127.0.0.1:1"),
		in("NATS_URL=127.0.0.1:1,nats://" + natsCanary + " @[::1"),
		in("NATS_URL=alice:" + natsCanary + "@127.0.0.1:1"),
		in("NATS_URL="+open, "NATS_CREDS="+rubbish),
		in("NATS_URL="+open, "NATS_NKEY="+rubbish),
		in("NATS_URL="+open, "NATS_CERT="+rubbish, "NATS_KEY="+rubbish),
		in("NATS_URL="+open, "NATS_CA="+rubbish),
		in("NATS_URL="+open, "IDWORKER_USER=alice", "IDWORKER_PASSWORD_FILE="+rubbish+".missing"),
	} {
		spy.fails(s, nil, "serve", "get order")
	}

	for _, d := range databases {
		db := d.with(t, "'order', 1, 100")
		user := d.user(t, db, "f", "SELECT")
		reader := db.DSNFor(user, canary)
		scheme, rest, _ := strings.Cut(reader, "://")
		for _, dsn := range []string{
			db.DSNFor(user, canary+"x"),
			reader,
			scheme + "://" + strings.Replace(rest, db.Addr(), freeport.Address(t), 1),
			scheme + "://" + strings.Replace(rest, ":"+canary, ":1#"+canary, 1),
		} {
			url := natstest.Start(t).URL() // an installation has a single store
			spy.fails(in(), []string{"--server", url, "--store-file", secretFile(t, dsn)}, "serve", "tag create new")
			list := "tag ls"
			if dsn == reader { // may list tags
				list = "tag rm order --yes"
			}
			spy.fails(in("IDWORKER_STORE="+dsn), []string{"--server", url}, list, "doctor")
		}
	}
}
