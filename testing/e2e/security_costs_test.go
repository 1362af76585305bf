package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestCostOfEachUser: while a user of nats.conf does its worst to the server
// and the workers, another gets IDs, none twice, and afterwards is answered
// again. How soon is a figure, beside that of a nats.conf without limits.
func TestCostOfEachUser(t *testing.T) {
	tier.Soak(t)
	t.Run("nats.conf", func(t *testing.T) { costs(t, natsConf) })
	text, err := os.ReadFile(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	unlimited := filepath.Join(t.TempDir(), "nats.conf")
	text = regexp.MustCompile(`(?m)^ *(limits: |no_fast_producer_stall: ).*`).ReplaceAll(text, nil)
	if err := os.WriteFile(unlimited, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("without limits", func(t *testing.T) { costs(t, unlimited) })
}

func costs(t *testing.T, conf string) {
	server := startProduction(t, conf)
	server.provision()
	server.must("admin", "tag", "create", "order", "--step", "1000000")
	for _, role := range []string{"loader", "worker", "worker"} {
		s := server.as(role)
		s.binary = plainBinary(t) // the race detector would be most of the cost
		s.launch(t, "serve", "--role", role).serving()
	}
	other := requester{conn: server.connect("caller")}
	ids := &ledger{tag: "order"}
	other.get(t, ids.tag, 1)
	t.Logf("%-15s %-17s %s", "nobody", "does anything", steady(t, other, ids))
	for _, u := range users {
		conn := server.connect(u.Name)
		flush(t, conn)
		deeds := worst(attacker{server, u, int(conn.MaxPayload())})
		for _, name := range slices.Sorted(maps.Keys(deeds)) {
			stop := make(chan struct{})
			var attack sync.WaitGroup
			attack.Go(func() { deeds[name](stop) })
			figures := steady(t, other, ids)
			close(stop)
			attack.Wait()
			other.get(t, ids.tag, 1)
			t.Logf("%-15s %-17s %s", u.Name, name, figures)
		}
	}
	ids.check(t)
}

// steady requests IDs at a steady rate, and returns the time that took.
func steady(t *testing.T, client requester, ids *ledger) string {
	t.Helper()
	const rate, n = 200, 2000
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for range n {
		time.Sleep(time.Second / rate)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			switch ranges, err := client.NextN(ctx, ids.tag, 1); {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				ids.add(ranges)
				took = append(took, time.Since(began))
			case !isAskAgain(err) && !lost(err):
				t.Errorf("a request of another user: %v", err)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	at := func(percent int) (d time.Duration) {
		if len(took) > 0 {
			d = took[percent*(len(took)-1)/100]
		}
		return d.Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, %d %% fail", at(50), at(99), 100*(n-len(took))/n)
}

// attacker is a user who does its worst. It writes the protocol directly, as no
// library would.
type attacker struct {
	server *production
	roles.User
	maxPayload int
}

// worst runs the attack, until stopped.
func worst(a attacker) map[string]func(stop <-chan struct{}) {
	lines := []byte("NATS/1.0\r\n") // as many as fit
	for i := 0; len(lines) < a.maxPayload-20; i++ {
		lines = fmt.Appendf(lines, "%x:\r\n", i)
	}
	header := string(lines) + "\r\n"
	requests := slices.Repeat(a.message("", "1"), 100)
	return map[string]func(<-chan struct{}){
		"headers, 40 a s": func(stop <-chan struct{}) { a.send(stop, a.message(header, ""), time.Second/40, true) },
		"headers, flood":  func(stop <-chan struct{}) { a.send(stop, a.message(header, ""), 0, true) },
		"payloads, flood": func(stop <-chan struct{}) {
			a.send(stop, a.message("", strings.Repeat("1", a.maxPayload)), 0, true)
		},
		"requests, flood": func(stop <-chan struct{}) { a.send(stop, requests, 0, true) },
		"replies unread":  func(stop <-chan struct{}) { a.send(stop, requests, time.Second/100, false) },
		"connections": func(stop <-chan struct{}) {
			for range 2000 {
				if conn, err := a.dial(); err == nil {
					defer func() { _ = conn.Close() }()
				}
			}
			<-stop
		},
	}
}

// message is a message to each subject that the user may publish to, of the
// kind that delays others most.
func (a attacker) message(header, payload string) (text []byte) {
	harmless := regexp.MustCompile(`^(ids\.(segment|snowflake)|\$SRV\.STATS|\$JS\.API\.(INFO|STREAM\.INFO|STREAM\.NAMES))`)
	for _, right := range a.Rights.Publish {
		if !harmless.MatchString(right) {
			continue
		}
		subject := strings.NewReplacer("*", "order", ">", "order").Replace(right)
		if header == "" {
			text = fmt.Appendf(text, "PUB %s %s.x %d\r\n%s\r\n", subject, a.Inbox, len(payload), payload)
		} else {
			text = fmt.Appendf(text, "HPUB %s %s.x %d %[3]d\r\n%s\r\n", subject, a.Inbox, len(header), header)
		}
	}
	return text
}

// send sends the text again and again, over new connections if the server ends
// them, and reads the answers or not. A user who does not read is subscribed to
// each reply 100 times.
func (a attacker) send(stop <-chan struct{}, text []byte, pause time.Duration, read bool) {
	var conn net.Conn
	for {
		select {
		case <-stop:
			if conn != nil {
				_ = conn.Close()
			}
			return
		case <-time.After(pause):
		}
		if conn == nil {
			var err error
			if conn, err = a.dial(); err != nil {
				continue
			}
			for i := range 100 {
				if !read {
					_, _ = fmt.Fprintf(conn, "SUB %s.> %d\r\n", a.Inbox, i)
				}
			}
			if read {
				go func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }(conn)
			}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write(text); err != nil {
			_ = conn.Close()
			conn = nil
		}
	}
}

// dial logs in, without waiting for the server's answer.
func (a attacker) dial() (net.Conn, error) {
	conn, err := net.Dial("tcp", a.server.address)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":%q,\"headers\":true,\"verbose\":false}\r\n", a.Name, password(a.User))
	return conn, nil
}

// fillAccount has a user connect until the server refuses it, which it does
// before the connection after most.
func fillAccount(t *testing.T, server *production, u roles.User, most int) {
	t.Helper()
	for n, refused := 0, false; !refused; n++ {
		conn, err := attacker{server: server, User: u}.dial()
		if err != nil || n > most {
			t.Fatalf("connection %d is not refused: %v", n, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprint(conn, "PING\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(natstest.Patience))
		for in := bufio.NewScanner(conn); in.Scan() && in.Text() != "PONG"; {
			refused = refused || strings.Contains(in.Text(), "maximum account active connections exceeded")
		}
	}
}
