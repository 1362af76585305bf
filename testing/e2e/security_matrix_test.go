package e2e

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
)

// How a client can use a subject.
const (
	publish   = "publish to"
	subscribe = "subscribe to"
	queueIDs  = "subscribe in queue ids to"
	queueSpy  = "subscribe in queue spy to"
)

var uses = []string{publish, subscribe, queueIDs, queueSpy}

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

var streams = []string{loadEvents, configBucket, workersBucket, clockBucket, registerBucket, enrichBucket, sourceStream, targetStream, "OTHER"}

// perStream are requests to JetStream that every stream has, with the stream in
// the place of %s.
var perStream = []string{
	"$JS.API.STREAM.INFO.%s", "$JS.API.STREAM.CREATE.%s", "$JS.API.STREAM.UPDATE.%s", "$JS.API.STREAM.MSG.GET.%s",
	"$JS.API.DIRECT.GET.%s", "$JS.API.DIRECT.GET.%s.$KV.bucket.key",
	"$JS.API.CONSUMER.CREATE.%s.name.filter", "$JS.API.CONSUMER.DELETE.%s.name", "$JS.FC.%s.name",
	"$JS.API.CONSUMER.INFO.%s.name", "$JS.API.CONSUMER.MSG.NEXT.%s.name",
	"$JS.API.CONSUMER.INFO.%s.loader", "$JS.API.CONSUMER.MSG.NEXT.%s.loader", "$JS.ACK.%s.loader.1.1.1.1.1",
	"$JS.API.CONSUMER.CREATE.%s.loader", "$JS.API.CONSUMER.DURABLE.CREATE.%s.loader",
	// No role needs these.
	"$JS.API.STREAM.DELETE.%s", "$JS.API.STREAM.PURGE.%s", "$JS.API.STREAM.MSG.DELETE.%s",
	"$JS.API.STREAM.SNAPSHOT.%s", "$JS.API.STREAM.RESTORE.%s", "$JS.API.STREAM.LEADER.STEPDOWN.%s", "$JS.API.STREAM.PEER.REMOVE.%s",
	"$JS.API.CONSUMER.CREATE.%s", "$JS.API.CONSUMER.DELETE.%s.loader", "$JS.API.CONSUMER.NAMES.%s", "$JS.API.CONSUMER.LIST.%s",
	"$JS.API.CONSUMER.PAUSE.%s.loader", "$JS.API.CONSUMER.UNPIN.%s.loader", "$JS.API.CONSUMER.LEADER.STEPDOWN.%s.loader",
	"$JS.ACK.%s.name.1.1.1.1.1", "$JS.ACK.domain.account.%s.loader.1.1.1.1.1",
}

// subjects are all subjects of the design, and those of NATS that could do
// harm.
func subjects() []string {
	all := []string{
		"ids.segment.order", "ids.segment.invoice", "ids.segment.order.item", "ids.snowflake", "ids.snowflake.more", "ids.other",
		"ids.load.X.order", "ids.reserve", "ids.grant.X", "ids.grant.X.more", "ids.drop", "ids.drop.X", "ids.process.worker", "ids.process.loader", "ids.process.X", "ids.process.>", "ids.enrich.ORDERS.ORDERS_READY", "ids.enrich.X.Y", "ids.enrich.>", "other.segment.order",
		"ids.segment.*", "ids.segment.>", "ids.load.>", "ids.grant.*", "ids.grant.>", "ids.*", "ids.>", "*", ">",
		"$KV.ids_config.layout", "$KV.ids_config.clock_id", "$KV.ids_config.store", "$KV.ids_config.register", "$KV.ids_config.templates", "$KV.ids_config.other",
		"$KV.ids_workers.1", "$KV.ids_clock.1", "$KV.ids_register.order", "$KV.ids_enrich.1", "$KV.other.key", "$KV.ids_register.>", "$KV.>",
		"orders.raw.1", "orders.ready.1", "orders.dead", "orders.other", "orders.>",
		"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.SERVER.REMOVE", "$JS.API.META.LEADER.STEPDOWN",
		"$JS.API.ACCOUNT.PURGE.IDS", "$JS.domain.API.INFO", "$JS.API.>", "$JS.ACK.>", "$JS.EVENT.>", "$JS.>", "$JSC.>",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.JSZ", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER.PING.CONNZ",
		"$SYS.REQ.SERVER.X.RELOAD", "$SYS.REQ.SERVER.X.KICK", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.IDS.CONNZ", "$SYS.REQ.USER.INFO",
		"$SYS.REQ.CLAIMS.UPDATE", "$SYS.ACCOUNT.IDS.CONNECT", "$SYS.REQ.>", "$SYS.>",
		"_INBOX.x", "_INBOX.>", "_R_.x", "_R_.>", "_GR_.x", "$MQTT.x", "$SRV.>", "$SRV.PING.>", "anything",
	}
	for _, verb := range []string{"PING", "INFO", "STATS", "SCHEMA"} {
		srv := "$SRV." + verb
		all = append(all, srv, srv+".idworker", srv+".idworker.X", srv+".idworker-snowflake", srv+".idworker-snowflake.X", srv+".idworker-process", srv+".idworker-process.X", srv+".other")
	}
	for _, u := range users {
		all = append(all, u.Inbox+".x", u.Inbox+".>", u.Inbox)
	}
	for _, s := range streams {
		all = append(all, of(s, perStream...)...)
	}
	return all
}

// of names requests for a stream.
func of(stream string, requests ...string) (all []string) {
	for _, r := range requests {
		all = append(all, strings.Replace(r, "%s", stream, 1))
	}
	return all
}

// needs reports whether a user needs to use a subject in a way: whether the
// packages of idworker, or nats.conf itself, state that right.
func needs(u roles.User, use, subject string) bool {
	switch use {
	case publish:
		return anyAllows(u.Rights.Publish, subject, "")
	case queueIDs:
		return anyAllows(u.Rights.Subscribe, subject, "ids")
	case queueSpy:
		return anyAllows(u.Rights.Subscribe, subject, "spy")
	}
	return anyAllows(u.Rights.Subscribe, subject, "")
}

func anyAllows(list []string, subject, group string) bool {
	return slices.ContainsFunc(list, func(right string) bool { return allows(right, subject, group) })
}

// allows reports whether a right allows a subject, by the server's rules. A
// right for a queue group is for that group only; a right without a group is
// for every group. A wildcard in the subject is a token like any other, and so
// a right for any name covers wildcards too: workers can see each other's
// grants, because a worker's name is unknown in advance.
func allows(right, subject, group string) bool {
	pattern, forGroup, hasGroup := strings.Cut(right, " ")
	if hasGroup && forGroup != group {
		return false
	}
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case i == len(have):
			return false
		case token == ">":
			return true
		case token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// TestRolesMayDoWhatTheyNeedAndNoMore tries every subject in every way as every
// user: the rights of its role are allowed, and everything else is refused. So
// are requests beyond the limits.
func TestRolesMayDoWhatTheyNeedAndNoMore(t *testing.T) {
	t.Parallel()
	server := startProduction(t, natsConf)
	server.provision()
	onlyUsers(t, server)
	subjects := subjects()
	good, all := 0, 0
	for _, u := range users {
		c := dialProtocol(t, server.address, u)
		for _, use := range uses {
			for _, subject := range subjects {
				if use == publish && strings.ContainsAny(subject, "*>") {
					continue // no subject to publish to
				}
				all++
				may, needed := c.may(use, subject), needs(u, use, subject)
				switch {
				case may == needed:
					good++
				case may:
					t.Errorf("%s may %s %s, and does not need to", u.Name, use, subject)
				default:
					t.Errorf("%s may not %s %s, and needs to", u.Name, use, subject)
				}
			}
		}
	}
	t.Logf("permissions: %d/%d as they should be (%d users, %d subjects, %d uses)", good, all, len(users), len(subjects), len(uses))
	limitsOfCallers(t, server)
}

// onlyUsers: without a user's name and password there is no login.
func onlyUsers(t *testing.T, server *production) {
	for what, url := range map[string]string{
		"nobody":             "nats://" + server.address,
		"a wrong password":   "nats://worker:secret@" + server.address,
		"another's password": "nats://worker:" + password(roles.UserNamed("caller")) + "@" + server.address,
		"an unknown user":    "nats://root:root@" + server.address,
	} {
		r := settings{env: []string{"NATS_URL=" + url}}.run(t, "get", "order")
		if r.code == 0 || !strings.Contains(r.stderr, "Authorization Violation; check the password, ") {
			t.Errorf("%s: exit code %d, %s", what, r.code, r.stderr)
		}
	}
}

// raw speaks the NATS protocol itself: the server refuses a line before it
// answers the PING after it, so each verdict is certain, and nothing has to be
// waited for.
type raw struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialProtocol(t *testing.T, address string, u roles.User) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := &raw{t, conn, bufio.NewReader(conn)}
	options, err := json.Marshal(map[string]any{"user": u.Name, "pass": password(u), "verbose": false, "headers": true, "no_responders": true})
	if err != nil {
		t.Fatal(err)
	}
	if refusal := r.send("CONNECT " + string(options)); refusal != "" {
		t.Fatalf("%s: %s", u.Name, refusal)
	}
	return r
}

// may reports whether the server lets a client use a subject.
func (r *raw) may(use, subject string) bool {
	r.t.Helper()
	var refusal string
	switch use {
	case publish:
		refusal = r.send("PUB " + subject + " 0\r\n")
	case subscribe:
		refusal = r.send("SUB "+subject+" 1", "UNSUB 1")
	case queueIDs:
		refusal = r.send("SUB "+subject+" ids 1", "UNSUB 1")
	case queueSpy:
		refusal = r.send("SUB "+subject+" spy 1", "UNSUB 1")
	}
	if refusal != "" && !strings.Contains(refusal, "Permissions Violation") {
		r.t.Fatalf("%s %s: %s", use, subject, refusal)
	}
	return refusal == ""
}

// send sends lines, and returns the server's refusal, if any.
func (r *raw) send(lines ...string) (refusal string) {
	r.t.Helper()
	if err := r.conn.SetDeadline(time.Now().Add(natstest.Patience)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\nPING\r\n")); err != nil {
		r.t.Fatal(err)
	}
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%v: %v", lines, err)
		}
		switch {
		case strings.HasPrefix(line, "-ERR"):
			refusal = line
		case strings.HasPrefix(line, "PONG"):
			return refusal
		}
	}
}
