package e2e

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	proc "github.com/idworker/idworker/testing/process"
)

// natsServer is nats-server as go.mod pins it.
var natsServer = sync.OnceValues(func() (string, error) { return proc.Build(buildDir, "nats-server", proc.NATSServer) })

// users are all users of nats.conf but the system account's.
var users = roles.Users()

func password(u roles.User) string { return "secret-of-" + u.Name }

// The streams of nats.conf by purpose.
const (
	loadEvents     = "IDS_LOAD"
	configBucket   = "KV_ids_config"
	workersBucket  = "KV_ids_workers"
	clockBucket    = "KV_ids_clock"
	registerBucket = "KV_ids_register"
	enrichBucket   = "KV_ids_enrich"
	sourceStream   = "ORDERS"
	targetStream   = "ORDERS_READY"
)

// production is a real nats-server with the repository's nats.conf, or a
// variant of it.
type production struct {
	t       testing.TB
	conf    string
	address string
	data    string
	binary  string   // of nats-server, if not as go.mod pins it
	env     []string // in addition to the variables of nats.conf
	server  *process
}

func startProduction(t testing.TB, conf string) *production {
	t.Helper()
	p := &production{t: t, conf: conf, address: freeport.Address(t), data: t.TempDir()}
	p.start()
	return p
}

// start starts the server on its data.
func (p *production) start() {
	p.t.Helper()
	bin := p.binary
	if bin == "" {
		var err error
		if bin, err = natsServer(); err != nil {
			p.t.Fatalf("build nats-server: %v", err)
		}
	}
	host, port, _ := strings.Cut(p.address, ":")
	env := append(p.env, "IDS_NATS_DATA="+p.data, "IDS_SYS_PASSWORD=secret-of-sys")
	for _, u := range users {
		env = append(env, u.PasswordVariable()+"="+password(u))
	}
	p.server = settings{binary: bin, env: env}.launch(p.t, "-c", p.conf, "-a", host, "-p", port)
	natstest.Eventually(p.t, "nats-server is ready", func() bool {
		return p.server.hasEnded() || strings.Contains(p.server.stderr.String(), "Server is ready")
	})
	if p.server.hasEnded() {
		p.t.Fatalf("nats-server does not start with %s:\n%s", p.conf, p.server.stderr.Tail())
	}
}

// crash kills the server and starts it again on the same data.
func (p *production) crash() {
	p.t.Helper()
	p.server.signal(syscall.SIGKILL)
	<-p.server.ended
	p.start()
}

// as are the settings that log idworker in as a user.
func (p *production) as(name string) settings {
	u := roles.UserNamed(name)
	return settings{env: []string{
		"NATS_URL=nats://" + u.Name + ":" + password(u) + "@" + p.address,
		"IDWORKER_INBOX_PREFIX=" + u.Inbox,
	}}
}

// must runs a command as a user, which has to succeed.
func (p *production) must(name string, args ...string) result {
	p.t.Helper()
	r := p.as(name).run(p.t, args...)
	if r.code != 0 {
		p.t.Fatalf("%s: idworker %s: exit code %d\n%s", name, strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

// serve starts a role as a user, and returns when it serves.
func (p *production) serve(name string, args ...string) *process {
	p.t.Helper()
	s := p.as(name).launch(p.t, append([]string{"serve"}, args...)...)
	s.serving()
	return s
}

// connect connects as a user.
func (p *production) connect(name string, opts ...nats.Option) *nats.Conn {
	p.t.Helper()
	u := roles.UserNamed(name)
	return connect(p.t, "nats://"+p.address, append(opts,
		nats.UserInfo(u.Name, password(u)), nats.CustomInboxPrefix(u.Inbox), nats.ErrorHandler(nil),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
}

// provision has the administrators make everything.
func (p *production) provision() {
	p.t.Helper()
	p.must("admin", "provision", "--part", "ids")
	p.must("orders-admin", "provision", "--part", "enrich")
}

// violations are the server's refusals to all users.
func (p *production) violations() (found []string) {
	for line := range strings.Lines(p.server.stderr.String()) {
		if strings.Contains(line, "Violation") {
			found = append(found, line)
		}
	}
	return found
}

// enrichFrom is a user's source and target in nats.conf.
var enrichFrom = []string{"--from", sourceStream, "--filter", "orders.raw.>", "--to", "orders.ready.done.>"}

// enrich creates streams, has an enricher stamp ten events, and returns when it
// has ended.
func (p *production) enrich(enricher settings, replicas int) {
	p.t.Helper()
	js := natstest.JetStream(p.t, p.connect("orders-admin"))
	for _, cfg := range []jetstream.StreamConfig{
		{Name: sourceStream, Subjects: []string{"orders.raw.>"}, Replicas: replicas},
		{Name: targetStream, Subjects: []string{"orders.ready.>", "orders.dead"}, Replicas: replicas, AllowDirect: true, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(p.t.Context(), cfg); err != nil {
			p.t.Fatal(err)
		}
	}
	const events = 10
	for i := range events {
		if _, err := js.Publish(p.t.Context(), fmt.Sprintf("orders.raw.%d", i), nil); err != nil {
			p.t.Fatal(err)
		}
	}
	e := enricher.launch(p.t, append([]string{"enrich", "--id", "segment:order", "--dead-letter", "orders.dead"}, enrichFrom...)...)
	natstest.Eventually(p.t, "events are stamped", func() bool {
		target, err := js.Stream(p.t.Context(), targetStream)
		return e.hasEnded() || err == nil && target.CachedInfo().State.Msgs == events
	})
	e.stop(syscall.SIGTERM)
}
