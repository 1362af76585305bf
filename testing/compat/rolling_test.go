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

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natsconf"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// TestRolling rolls loaders and workers from 0.1.0 to this version and back, one
// process at a time, while callers request IDs: every process starts, no call
// fails, no ID comes twice, and those of a strict tag ascend. Then again, with a
// raise of all tags while both versions run.
//
// The first round runs with nats.conf of 0.1.0: processes that serve need no
// other rights. The second begins with this version's, and its provisioning.
func TestRolling(t *testing.T) {
	tier.All(t)
	source := source010(t)
	s := newRollingSite(t)
	before, after := s.build("idworker-0.1.0", process.Command, "-C", source), s.build("idworker", process.Command)

	s.useRights(filepath.Join(source, "nats.conf"))
	s.restartServer()
	for _, command := range []string{
		"provision --part ids", "tag create order --step 100", "tag create invoice --order strict --step 100", "tag create chat.* --template --step 100",
	} {
		s.administer(before, command)
	}
	for i, role := range roles {
		s.processes[i] = s.serves(before, role)
	}
	s.startCallers()

	all := len(roles)
	s.roll(after, 0, all)
	s.roll(before, 0, all)

	s.useRights("../../nats.conf")
	s.reloadServer()
	s.administer(after, "provision --part ids")
	s.roll(after, 0, all/2)
	raised := time.Now()
	s.administer(after, "tag raise --all --yes")
	s.awaitAnswers()
	s.roll(after, all/2, all)
	s.roll(before, 0, all)

	s.stopCallers()
	t.Logf("answers: %v", s.answers)
	for line := range strings.Lines(s.running.Stderr.String()) {
		if strings.Contains(line, "Violation") {
			t.Errorf("the server refused: %s", line)
		}
	}
	for _, tag := range []string{"order", "invoice", "chat.0", "chat.new"} {
		if id, err := s.client.Next(t.Context(), tag); err != nil || id < raised.UnixMicro() {
			t.Errorf("%s has ID %d after the raise, %v; want one above %d", tag, id, err, raised.UnixMicro())
		}
	}
}

// roles are those of the processes, in the order in which they are replaced.
var roles = [...]string{"worker", "loader", "worker", "loader", "worker"}

// rollingSite is a site with the users of nats.conf, and callers.
type rollingSite struct {
	*site
	address   string
	processes [len(roles)]*process.Process

	client     *messages.Client
	began      time.Time
	callers    sync.WaitGroup
	asking     context.Context // until stopAsking
	stopAsking func()

	mu      sync.Mutex // guards what follows
	checker *history.Checker
	answers map[history.Kind]int
}

// password is that of all users.
const password = "secret"

func newRollingSite(t *testing.T) *rollingSite {
	s := &rollingSite{
		site:  &site{T: t, conf: filepath.Join(t.TempDir(), "nats.conf"), env: []string{"NATS_PASSWORD=" + password}},
		began: time.Now(), checker: history.NewChecker(snowflake.Default()), answers: make(map[history.Kind]int),
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", freeport.Get(t))
	s.url = "nats://" + s.address
	s.env = append(s.env, "IDS_NATS_DATA="+t.TempDir(), "IDS_SYS_PASSWORD="+password)
	for _, user := range natsconf.Users() {
		s.env = append(s.env, user.PasswordVariable()+"="+password)
	}
	s.server = s.build("nats-server", process.NATSServer)
	return s
}

func (s *rollingSite) build(name, command string, flags ...string) string {
	s.Helper()
	path, err := process.Build(s.TempDir(), name, command, flags...)
	if err != nil {
		s.Fatal(err)
	}
	return path
}

// useRights makes a nats.conf that of the server.
func (s *rollingSite) useRights(conf string) {
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
func (s *rollingSite) reloadServer() {
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
func (s *rollingSite) administer(binary, command string) {
	s.Helper()
	p := s.start(binary, "", as("admin", strings.Fields(command)...)...)
	if !p.Cmd.ProcessState.Success() {
		s.Fatalf("idworker %s: %v\n%s%s", command, p.Cmd.ProcessState, p.Stdout.Tail(), p.Stderr.Tail())
	}
}

// serves starts a process, which serves then.
func (s *rollingSite) serves(binary, role string) *process.Process {
	s.Helper()
	return s.start(binary, "\tserving\t", as(role, "serve", "--role", role)...)
}

// roll replaces processes, one after the other, by those of another version.
// Calls of each kind are answered in between.
func (s *rollingSite) roll(binary string, from, to int) {
	s.Helper()
	for i, role := range roles[from:to] {
		p := s.processes[from+i]
		if p.HasEnded() {
			s.Fatalf("%s ended: %v", role, p.Cmd.ProcessState)
		}
		p.Signal(syscall.SIGTERM)
		natstest.Eventually(s, role+" stops", p.HasEnded)
		if !p.Cmd.ProcessState.Success() {
			s.Fatalf("%s stopped: %v", role, p.Cmd.ProcessState)
		}
		s.processes[from+i] = s.serves(binary, role)
		s.awaitAnswers()
	}
}

// The callers: one of each kind.
const template history.Kind = "template" // tags of a template

var kinds = []history.Kind{history.Batch, history.Strict, history.Snowflake, template}

const (
	pace     = 10 * time.Millisecond // of a caller's calls
	tagCalls = 10                    // for a tag of the template, before the next tag
)

// call is the n-th call of a kind.
func call(kind history.Kind, n int64) *history.Call {
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

func (s *rollingSite) startCallers() {
	conn, err := nats.Connect(s.url, nats.UserInfo("caller", password), nats.CustomInboxPrefix("_INBOX_caller.any"), nats.MaxReconnects(-1))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Close)
	s.client = messages.NewClient(conn, messages.DefaultPrefix)
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

func (s *rollingSite) stopCallers() {
	s.stopAsking()
	s.callers.Wait()
}

// ask makes a call, and checks its IDs.
func (s *rollingSite) ask(c *history.Call) (err error) {
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
func (s *rollingSite) awaitAnswers() {
	s.Helper()
	answers := func() map[history.Kind]int {
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
