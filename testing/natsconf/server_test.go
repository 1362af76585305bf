package natsconf_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
)

func password(u roles.User) string { return "secret-of-" + u.Name }

// startServer starts a NATS server with nats.conf.
func startServer(t *testing.T) *natstest.Node {
	t.Helper()
	setEnv(t)
	for _, u := range roles.Users() {
		hash, err := bcrypt.GenerateFromPassword([]byte(password(u)), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(u.PasswordVariable(), string(hash))
	}
	return natstest.Start(t, func(o *server.Options) {
		conf, err := server.ProcessConfigFile(path)
		if err != nil {
			t.Fatal(err)
		}
		conf.Host, conf.Port, conf.StoreDir, conf.NoSigs, conf.NoLog = o.Host, o.Port, o.StoreDir, true, o.NoLog
		*o = *conf
	})
}

// TestOnlyUsersLogIn: there is no login without a user's name and password.
func TestOnlyUsersLogIn(t *testing.T) {
	ns := startServer(t)
	worker := roles.UserNamed("worker")
	for _, login := range [][2]string{{}, {worker.Name, "secret"}, {worker.Name, password(roles.UserNamed("caller"))}, {"root", "root"}} {
		if _, err := nats.Connect(ns.URL(), nats.UserInfo(login[0], login[1])); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("login as %q: %v", login, err)
		}
	}
	ns.Connect(t, nats.UserInfo(worker.Name, password(worker)))
}

// exchange sends lines of the NATS protocol as a user, and returns all that the
// server answers to them. It refuses a line before it answers the PING after
// it, so there is nothing to wait for.
func exchange(t *testing.T, ns *natstest.Node, u roles.User, lines ...string) string {
	t.Helper()
	to, err := url.Parse(ns.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", to.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(natstest.Patience)); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":%q,\"verbose\":false}\r\n%s\r\nPING\r\n", u.Name, password(u), strings.Join(lines, "\r\n"))
		sent <- err
	}()
	var answer strings.Builder
	for part := make([]byte, 1<<16); !strings.HasSuffix(answer.String(), "PONG\r\n"); {
		n, err := conn.Read(part)
		answer.Write(part[:n])
		if errors.Is(err, io.EOF) {
			break // the server has ended the connection
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return answer.String()
}

// literals are subjects that each tell a right of a user from one that is wider
// or narrower by a token, and those that are harmful.
func literals() []string {
	all := make(map[string]bool)
	add := func(pattern string) {
		subject, _, _ := strings.Cut(pattern, " ")
		subject = strings.NewReplacer("*", "X", ">", "X").Replace(subject)
		all[subject], all[subject+".more"] = true, true
	}
	for _, u := range roles.Users() {
		for _, right := range slices.Concat(u.Rights.Publish, u.Rights.Subscribe) {
			add(right)
		}
		add(u.Inbox)
	}
	for _, subject := range slices.Concat(harmful(), []string{"ids.other", "orders.other", "_INBOX.x", "$SRV.PING.other", "$MQTT.x", "anything"}) {
		add(subject)
	}
	return slices.Sorted(maps.Keys(all))
}

// TestServerRefusesAllElse tries each subject in every way as each user: what its
// role states is allowed, and all else is refused. A right in a queue group is
// none in another, and none without.
func TestServerRefusesAllElse(t *testing.T) {
	ns := startServer(t)
	subjects := append(literals(), "ids.segment.*", "ids.segment.>", "ids.load.>", "ids.*", "ids.>", "orders.>", "_INBOX.>", "$SRV.>", "$KV.>", "$JS.>", "$SYS.>", "*", ">")
	tried, refused := 0, 0
	for _, u := range roles.Users() {
		var lines []string
		want := make(map[string]bool) // refusal → expected
		try := func(line, refusal string, stated []string, wanted string) {
			lines = append(lines, line)
			want[refusal] = !slices.ContainsFunc(stated, func(right string) bool { return rights.Covers(right, wanted) })
		}
		for _, s := range subjects {
			if !strings.ContainsAny(s, "*>") {
				try("PUB "+s+" 0\r\n", fmt.Sprintf("Publish to %q", s), u.Rights.Publish, s)
			}
			try("SUB "+s+" 1\r\nUNSUB 1", fmt.Sprintf("Subscription to %q", s), u.Rights.Subscribe, s)
			for _, queue := range []string{"ids", "spy"} {
				try("SUB "+s+" "+queue+" 1\r\nUNSUB 1", fmt.Sprintf("Subscription to %q using queue %q", s, queue), u.Rights.Subscribe, s+" "+queue)
			}
		}
		answer := exchange(t, ns, u, lines...)
		if !strings.HasSuffix(answer, "PONG\r\n") {
			t.Fatalf("%s: the server has ended the connection: %.1000s", u.Name, answer)
		}
		for refusal, expected := range want {
			tried++
			is := strings.Contains(answer, "-ERR 'Permissions Violation for "+refusal+"'")
			if is {
				refused++
			}
			if is != expected {
				t.Errorf("%s, %s: refused %v, want %v", u.Name, refusal, is, expected)
			}
		}
	}
	t.Logf("%d users, %d subjects: %d of %d refused", len(roles.Users()), len(subjects), refused, tried)
}

// TestServerLimitsCallers: a caller has 100 subscriptions and sends 1 KB at most.
func TestServerLimitsCallers(t *testing.T) {
	ns, u := startServer(t), roles.UserNamed("order")
	subscribe := make([]string, 101)
	for i := range subscribe {
		subscribe[i] = fmt.Sprintf("SUB %s.> %d", u.Inbox, i)
	}
	if answer := exchange(t, ns, u, subscribe[1:]...); strings.Contains(answer, "-ERR") {
		t.Errorf("100 subscriptions: %s", answer)
	}
	const violation = "maximum subscriptions exceeded"
	if answer := exchange(t, ns, u, subscribe...); !strings.Contains(strings.ToLower(answer), violation) {
		t.Errorf("101 subscriptions: %s", answer)
	}
	if answer := exchange(t, ns, u, fmt.Sprintf("PUB ids.segment.order 1024\r\n%1024d", 1)); strings.Contains(answer, "-ERR") {
		t.Errorf("1 KB: %s", answer)
	}
	// Without the payload, or the end of the connection could overtake the error.
	if answer := exchange(t, ns, u, "PUB ids.segment.order 1025"); !strings.Contains(answer, "-ERR 'Maximum Payload Violation'") || strings.HasSuffix(answer, "PONG\r\n") {
		t.Errorf("more than 1 KB: %s, want an error and the end of the connection", answer)
	}
}
