package compat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	natsusers "github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/worker/history"
)

// busySite is a site with the users of nats.conf, and callers.
type busySite struct {
	*site
	address string

	client     *messages.Client
	began      time.Time
	callers    sync.WaitGroup
	asking     context.Context // until stopAsking
	stopAsking func()

	mu      sync.Mutex // guards what follows
	checker *history.Checker
	answers map[history.CallKind]int
}

// password is that of all users.
const password = "secret"

// newBusySite returns a site for the binary of a nats-server.
func newBusySite(t *testing.T, server string) *busySite {
	s := &busySite{
		site:  &site{T: t, server: server, conf: filepath.Join(t.TempDir(), "nats.conf"), env: []string{"NATS_PASSWORD=" + password}},
		began: time.Now(), checker: history.NewChecker(snowflake.Default()), answers: make(map[history.CallKind]int),
	}
	s.address = freeport.Address(t)
	s.url = "nats://" + s.address
	s.env = append(s.env, "IDS_NATS_DATA="+t.TempDir(), "IDS_SYS_PASSWORD="+password)
	for _, user := range natsusers.Users() {
		s.env = append(s.env, user.PasswordVariable()+"="+password)
	}
	return s
}

// useRights makes a nats.conf that of the server.
func (s *busySite) useRights(conf string) {
	s.Helper()
	const listen = "listen: 127.0.0.1:4222"
	text, err := os.ReadFile(conf)
	if err != nil || !strings.Contains(string(text), listen) {
		s.Fatalf("%s has no line %q, %v", conf, listen, err)
	}
	if err := os.WriteFile(s.conf, []byte(strings.Replace(string(text), listen, "listen: "+s.address, 1)), 0o600); err != nil {
		s.Fatal(err)
	}
}

// reloadServer has the server read its nats.conf again.
func (s *busySite) reloadServer() {
	s.running.Signal(syscall.SIGHUP)
	natstest.Eventually(s, "the server reloads nats.conf", func() bool {
		log := s.running.Stderr.String()
		if strings.Contains(log, "Failed to reload") {
			s.Fatal(log)
		}
		return strings.Contains(log, "Reloaded server configuration")
	})
}

func as(user string, args ...string) []string {
	return append(args, "--user", user, "--inbox-prefix", "_INBOX_"+user)
}

// administer runs a command to its end.
func (s *busySite) administer(binary, command string) (stdout string) {
	s.Helper()
	p := s.start(binary, "", as("admin", strings.Fields(command)...)...)
	if !p.Cmd.ProcessState.Success() {
		s.Fatalf("idworker %s: %v\n%s%s", command, p.Cmd.ProcessState, p.Stdout.Tail(), p.Stderr.Tail())
	}
	return p.Stdout.String()
}

// serves starts a process, which serves then.
func (s *busySite) serves(binary, role string) *process.Running {
	s.Helper()
	return s.start(binary, "\tserving\t", as(role, "serve", "--role", role)...)
}

// The callers: one of each kind.
const template history.CallKind = "template" // tags of a template

var kinds = []history.CallKind{history.Batch, history.Strict, history.Snowflake, template}

const (
	pace     = 10 * time.Millisecond // of a caller's calls
	tagCalls = 10                    // for a tag of the template, before the next tag
)

// call is the n-th call of a kind.
func call(kind history.CallKind, n int64) *history.Call {
	c := &history.Call{Kind: kind, Count: 1 + n%20}
	switch kind {
	case history.Batch:
		c.Tag = "order"
	case history.Strict:
		c.Tag = "invoice"
	case template:
		c.Tag = fmt.Sprintf("chat.%d", n/tagCalls)
	}
	return c
}

// connect connects as a user until the test ends.
func (s *busySite) connect(user, inboxes string) *nats.Conn {
	s.Helper()
	conn, err := nats.Connect(s.url, nats.UserInfo(user, password), nats.CustomInboxPrefix(inboxes), nats.MaxReconnects(-1))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Close)
	return conn
}

func (s *busySite) startCallers() {
	s.client = messages.NewClient(s.connect("caller", "_INBOX_caller.any"), messages.DefaultPrefix)
	s.asking, s.stopAsking = context.WithCancel(s.Context())
	s.Cleanup(s.stopCallers)
	for _, kind := range kinds {
		s.callers.Go(func() {
			ticker := time.NewTicker(pace)
			defer ticker.Stop()
			for n := int64(0); s.asking.Err() == nil; n++ {
				if err := s.ask(call(kind, n)); err != nil && s.asking.Err() == nil {
					s.Error(err)
					s.stopAsking()
				}
				<-ticker.C
			}
		})
	}
}

func (s *busySite) stopCallers() {
	s.stopAsking()
	s.callers.Wait()
}

// ask makes a call, and checks its IDs.
func (s *busySite) ask(c *history.Call) (err error) {
	ctx, cancel := context.WithTimeout(s.asking, natstest.Patience)
	defer cancel()
	c.Sent = time.Since(s.began)
	if c.Kind == history.Snowflake {
		c.Ranges, err = s.client.SnowflakeN(ctx, c.Count)
	} else {
		c.Ranges, err = s.client.NextN(ctx, c.Tag, c.Count)
	}
	if err != nil {
		return fmt.Errorf("%s call of %q: %w", c.Kind, c.Tag, err)
	}
	return s.check(c)
}

// check checks the IDs of a call that was answered now.
func (s *busySite) check(c *history.Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Received = time.Since(s.began)
	s.answers[c.Kind]++
	order := ""
	if c.Kind == history.Strict {
		order = c.Tag
	}
	return errors.Join(s.checker.Check(c, order)...)
}

// awaitAnswers waits until each caller got some more answers, also about new
// tags of the template.
func (s *busySite) awaitAnswers() {
	s.Helper()
	answers := func() map[history.CallKind]int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return maps.Clone(s.answers)
	}
	before := answers()
	for _, kind := range kinds {
		natstest.Eventually(s, fmt.Sprintf("%s calls are answered", kind), func() bool {
			return s.Failed() || answers()[kind] > before[kind]+2*tagCalls
		})
	}
	if s.Failed() {
		s.FailNow()
	}
}

// checkRights checks that the server refused no message.
func (s *busySite) checkRights() {
	s.Helper()
	for line := range strings.Lines(s.running.Stderr.String()) {
		if strings.Contains(line, "Violation") {
			s.Errorf("the server refused: %s", line)
		}
	}
}
