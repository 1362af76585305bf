package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natsconf"
	"github.com/idworker/idworker/testing/natstest"
)

// TestStrictTagsForEveryUser: with the users of nats.conf, a strict tag goes up whichever worker is asked and
// whoever asks, also from another account, whose requests are passed on with replies that the server
// maps; and the server refuses nothing.
func TestStrictTagsForEveryUser(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	loader := net.serve("loader", "--role", "loader")
	first := net.serve("worker", "--role", "worker")
	second := net.serve("worker", "--role", "worker")

	net.must("admin", "tag", "create", "invoice", "--step", "50", "--order", "strict")
	net.must("admin", "tag", "create", "order", "--step", "50")
	net.must("admin", "tag", "set", "order", "--order", "strict")
	if ls := net.must("admin", "tag", "ls").stdout; strings.Count(ls, "strict") != 2 {
		t.Errorf("tag ls: %s", ls)
	}
	highest := int64(0)
	callers := []string{"caller", "enricher", "order", "admin"}
	clients := make(map[string]*messages.Client)
	for _, name := range callers {
		clients[name] = messages.NewClient(net.connect(name), messages.DefaultPrefix)
	}
	ask := func(rounds int) {
		t.Helper()
		for i := range rounds {
			name := callers[i%len(callers)]
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			ranges, err := clients[name].NextN(ctx, "order", int64(1+i%3))
			cancel()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if ranges[0].First <= highest {
				t.Fatalf("%s got %v after %d", name, ranges, highest)
			}
			highest = ranges[len(ranges)-1].Last
		}
	}
	ask(400)
	var forwarded int64
	for _, s := range stats(t, net.connect("admin"), 2) {
		forwarded += s.Strict.Forwarded
	}
	fmt.Printf("strict tags in nats.conf: 400 requests of %d users, %d passed on to the owner\n", len(callers), forwarded)
	if forwarded < 100 {
		t.Errorf("only %d requests were passed on", forwarded)
	}
	if got := net.must("enricher", "get", "invoice").stdout; strings.TrimSpace(got) != "1" {
		t.Errorf("the first ID of a strict tag: %q", got)
	}
	refusedNothing(t, net)
	first.stop(syscall.SIGTERM)
	ask(100)
	net.must("admin", "tag", "set", "order", "--order", "trend")
	if id, err := strconv.ParseInt(strings.TrimSpace(net.must("caller", "get", "order").stdout), 10, 64); err != nil || id <= highest {
		t.Errorf("%d, %v after it is an ordinary tag again", id, err)
	}
	refusedNothing(t, net)
	second.stop(syscall.SIGTERM)
	loader.stop(syscall.SIGTERM)
}

// TestAdminSaysWhoHasEnded: with the users of nats.conf, a worker that has crashed keeps no tag from being made strict
// once the administrator has said that it has ended.
func TestAdminSaysWhoHasEnded(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	net.serve("loader", "--role", "loader")
	crashed := net.serve("worker", "--role", "worker")
	net.serve("worker", "--role", "worker")
	net.must("admin", "tag", "create", "invoice", "--order", "strict") // from now on leases run out soon
	crashed.signal(syscall.SIGKILL)
	create := func(args ...string) result {
		return net.as("admin").run(t, append([]string{"tag", "create", "order", "--order", "strict"}, args...)...)
	}
	natstest.Eventually(t, "the crashed worker is named", func() bool {
		r := create()
		if r.code == 0 {
			t.Fatal("a tag is strict, and nobody knows what became of a worker")
		}
		return strings.Contains(r.stderr, "--ended "+crashed.instance())
	})
	if r := create("--ended", crashed.instance()); r.code != 0 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	net.must("admin", "tag", "create", "other", "--order", "strict") // it was recorded
	refusedNothing(t, net)
}

// TestHeadersOfCallersHaveNoRights: a server carries out some headers with the rights of who sends them, and
// does not see those of a caller that nats.go sees. A caller whose request is passed on to the owner of a
// strict tag does not get the rights of the worker that passes it on.
func TestHeadersOfCallersHaveNoRights(t *testing.T) {
	t.Parallel()
	p := startProduction(t, natsConf)
	p.provision()
	p.serve("loader", "--role", "loader")
	p.serve("worker", "--role", "worker")
	p.serve("worker", "--role", "worker")
	p.must("admin", "tag", "create", "order", "--order", "strict")
	p.must("caller", "get", "order")
	before := revisionIn(t, p, "ids_config", "installation")

	const trace = "Nats-Trace-Dest: $KV.ids_config.installation\r\n\r\n"
	for _, header := range []string{"NATS/1.0 200\r\n" + trace, "NATS/1.0\r\nX: a\n" + trace} {
		hpub := fmt.Sprintf("HPUB ids.segment.order _INBOX_caller.any.x %d %d\r\n%s\r\n", len(header), len(header), header)
		sendRaw(t, p, userNamed("caller"), strings.Repeat(hpub, 40))
	}
	natstest.Eventually(t, "requests were passed on", func() bool {
		received := int64(0)
		for _, s := range stats(t, p.connect("admin"), 2) {
			received += s.Strict.Received
		}
		return received >= 10 // of 80, each with a worker that is the owner or not
	})
	p.must("caller", "get", "order")
	if after := revisionIn(t, p, "ids_config", "installation"); after != before {
		t.Errorf("a caller has written to ids_config: revision %d, was %d", after, before)
	}
}

func revisionIn(t *testing.T, p *production, bucket, key string) uint64 {
	t.Helper()
	js, err := jetstream.New(p.connect("admin"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(t.Context(), "$KV."+bucket+"."+key)
	if err != nil {
		t.Fatal(err)
	}
	return msg.Sequence
}

// sendRaw sends what no library would send, and returns when the server has read it.
func sendRaw(t *testing.T, p *production, u natsconf.User, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":%q,\"headers\":true,\"verbose\":false,\"protocol\":1}\r\n%sPING\r\n", u.Name, password(u), text)
	lines := bufio.NewScanner(conn)
	for lines.Scan() && lines.Text() != "PONG" {
		if strings.HasPrefix(lines.Text(), "-ERR") {
			t.Fatalf("the server says %s", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
