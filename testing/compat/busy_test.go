package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/worker/history"
	"github.com/idworker/idworker/worker/loadmsg"
)

// busySite is a site with the users of nats.conf, and callers.
type busySite struct {
	*site
	address string
	lacking bool // the new rights of docs/upgrades.md

	conn       *nats.Conn       // of bare requests
	clientConn *nats.Conn       // of all others
	client     *messages.Client // on clientConn
	began      time.Time
	callers    sync.WaitGroup
	asking     context.Context // until stopAsking
	stopAsking func()

	// A call that begins now gets no lower ID: of a strict tag, and of any tag.
	strictFloor, floor atomic.Int64

	mu      sync.Mutex // guards what follows
	checker *history.Checker
	answers map[history.CallKind]int
	refused int // bare requests with a reply that orders a retry
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
	s.env = append(s.env, "IDS_NATS_DATA="+t.TempDir())
	return s
}

var passwords = regexp.MustCompile(`\$(IDS_\w+_PASSWORD)`)

// useRights makes a nats.conf that of the server. A server that runs cannot get
// more environment variables, so the file sets those of its new users.
func (s *busySite) useRights(conf string) {
	s.Helper()
	const listen = "listen: 127.0.0.1:4222"
	data, err := os.ReadFile(conf)
	text := string(data)
	if err != nil || !strings.Contains(text, listen) {
		s.Fatalf("%s has no line %q, %v", conf, listen, err)
	}
	s.lacking = strings.HasPrefix(conf, oldSource(s.T))
	text = strings.Replace(text, listen, "listen: "+s.address, 1)
	for _, match := range passwords.FindAllStringSubmatch(text, -1) {
		switch variable := match[1] + "=" + password; {
		case slices.Contains(s.env, variable):
		case s.running == nil:
			s.env = append(s.env, variable)
		default:
			text = variable + "\n" + text
		}
	}
	if err := os.WriteFile(s.conf, []byte(text), 0o600); err != nil {
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

// administer runs a command of the user admin to its end.
func (s *busySite) administer(binary, command string) (stdout string) {
	s.Helper()
	return s.run(binary, as("admin", strings.Fields(command)...)...)
}

// run runs a command to its end.
func (s *busySite) run(binary string, command ...string) (stdout string) {
	s.Helper()
	p := s.start(binary, "", command...)
	if !p.Cmd.ProcessState.Success() {
		s.Fatalf("idworker %s: %v\n%s%s", command, p.Cmd.ProcessState, p.Stdout.Tail(), p.Stderr.Tail())
	}
	return p.Stdout.String()
}

// serves starts a process, which serves then.
func (s *busySite) serves(binary, role string) *process.Running {
	s.Helper()
	return s.start(binary, serving, as(role, "serve", "--role", role)...)
}

// replace stops a process, and starts one of a version in its place.
func (s *busySite) replace(p *process.Running, binary, role string) *process.Running {
	s.Helper()
	if p.HasEnded() {
		s.Fatalf("%s ended: %v", role, p.Cmd.ProcessState)
	}
	p.Signal(syscall.SIGTERM)
	natstest.Eventually(s, role+" stops", p.HasEnded)
	if !p.Cmd.ProcessState.Success() {
		s.Fatalf("%s stopped: %v", role, p.Cmd.ProcessState)
	}
	return s.serves(binary, role)
}

// makeTags makes the streams, the buckets and the callers' tags. Segments of the
// tag cold last longer than the test.
func (s *busySite) makeTags(binary string, step int) {
	s.Helper()
	s.administer(binary, "provision --part ids")
	for _, create := range []string{"order", "invoice --order strict", "chat.* --template"} {
		s.administer(binary, fmt.Sprintf("tag create %s --step %d", create, step))
	}
	s.administer(binary, "tag create cold --step 100000")
}

// raise raises all tags, by a command that takes these arguments. So many workers
// of the old version run: the command names them, because they hand out what they
// hold. Any other ID of a call that begins after the command is of after the
// raise.
func (s *busySite) raise(oldWorkers int, binary string, command ...string) {
	s.Helper()
	s.takeCold(0) // by all workers, most probably
	var done struct {
		Floor         int64 `json:"floor,string"`
		Older, Silent []string
	}
	text := s.run(binary, append(command, "--yes", "--json")...)
	if err := json.Unmarshal([]byte(text), &done); err != nil || done.Floor <= s.strictFloor.Load() {
		s.Fatalf("%v: %v\n%s", command, err, text)
	}
	if len(done.Older) != oldWorkers || len(done.Silent) > 0 {
		s.Errorf("%v: of an older version are %q, silent are %q; want %d workers of the old version", command, done.Older, done.Silent, oldWorkers)
	}
	s.strictFloor.Store(done.Floor)
	if oldWorkers == 0 {
		s.allFollow()
	}
}

// allFollow: no worker of the old version holds what was granted before the
// latest raise.
func (s *busySite) allFollow() {
	s.Helper()
	s.floor.Store(s.strictFloor.Load())
	s.takeCold(s.floor.Load())
}

// takeCold takes IDs of the tag cold, none of them below a floor.
func (s *busySite) takeCold(floor int64) {
	s.Helper()
	for range 30 {
		if id, err := s.client.Next(s.Context(), "cold"); err != nil || id < floor {
			s.Fatalf("tag cold has ID %d, %v; want one from %d on", id, err, floor)
		}
	}
}

// The callers: one of each kind. All but the last use the Go client.
const (
	template history.CallKind = "template" // tags of a template
	bare     history.CallKind = "bare"     // requests that are sent once
)

var kinds = []history.CallKind{history.Batch, history.Strict, history.Snowflake, template, bare}

const (
	pace     = 10 * time.Millisecond // of a caller's calls: together 500 a second
	inFlight = 100                   // calls of a caller, at most
	tagCalls = 10                    // for a tag of the template, before the next tag
)

// call is the n-th call of a kind.
func call(kind history.CallKind, n int64) *history.Call {
	c := &history.Call{Kind: kind, Count: 1 + n%20}
	if kind == bare {
		c.Kind = []history.CallKind{history.Batch, history.Strict, history.Snowflake}[n%3]
	}
	switch c.Kind {
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

// connectCallers connects the callers.
func (s *busySite) connectCallers() {
	s.conn, s.clientConn = s.connect("caller", "_INBOX_caller.any"), s.connect("caller", "_INBOX_caller.any")
	s.client = messages.NewClient(s.clientConn, messages.DefaultPrefix)
}

// startCallers starts callers who call at their pace, whether earlier calls were
// answered or not.
func (s *busySite) startCallers() {
	s.asking, s.stopAsking = context.WithCancel(s.Context())
	s.Cleanup(s.stopCallers)
	for _, kind := range kinds {
		s.callers.Go(func() {
			ticker := time.NewTicker(pace)
			defer ticker.Stop()
			places := make(chan struct{}, inFlight)
			for n := int64(0); s.asking.Err() == nil; n++ {
				places <- struct{}{}
				s.callers.Go(func() {
					defer func() { <-places }()
					if err := s.makeCall(kind, n); err != nil && s.Context().Err() == nil {
						s.Error(err)
						s.stopAsking()
					}
				})
				<-ticker.C
			}
		})
	}
}

// stopCallers returns when all calls are answered.
func (s *busySite) stopCallers() {
	s.stopAsking()
	s.callers.Wait()
}

// makeCall makes the n-th call of a kind, and checks its IDs.
func (s *busySite) makeCall(kind history.CallKind, n int64) (err error) {
	ctx, cancel := context.WithTimeout(s.Context(), natstest.Patience)
	defer cancel()
	c := call(kind, n)
	floor := s.floor.Load()
	switch c.Kind {
	case history.Strict:
		floor = s.strictFloor.Load()
	case history.Snowflake:
		floor = 0
	}
	c.Sent = time.Since(s.began)
	switch {
	case kind == bare:
		c.Ranges, err = s.requestOnce(ctx, c)
	case c.Kind == history.Snowflake:
		c.Ranges, err = s.client.SnowflakeN(ctx, c.Count)
	default:
		c.Ranges, err = s.client.NextN(ctx, c.Tag, c.Count)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[kind]++
	if kind == bare && (errors.Is(err, messages.ErrUnavailable) || errors.Is(err, messages.ErrBusy)) {
		s.refused++
		return nil
	}
	if err == nil {
		err = s.check(c)
	}
	if err == nil && c.Ranges[0].First < floor {
		err = fmt.Errorf("ID %d was granted before the raise to %d, which had ended when the call began", c.Ranges[0].First, floor)
	}
	if err != nil {
		return fmt.Errorf("%s call %d of %q: %w", kind, n, c.Tag, err)
	}
	return nil
}

// requestOnce sends a request once.
func (s *busySite) requestOnce(ctx context.Context, c *history.Call) ([]messages.Range, error) {
	subject := messages.DefaultPrefix.Segment(c.Tag)
	if c.Kind == history.Snowflake {
		subject = messages.DefaultPrefix.Snowflake()
	}
	reply, err := s.conn.RequestWithContext(ctx, subject, messages.EncodeCount(c.Count))
	if err != nil {
		return nil, err
	}
	return messages.DecodeReply(reply, c.Count)
}

// check checks the IDs of a call that was answered now. It needs s.mu.
func (s *busySite) check(c *history.Call) error {
	c.Received = time.Since(s.began)
	order := ""
	if c.Kind == history.Strict {
		order = c.Tag
	}
	return errors.Join(s.checker.Check(c, order)...)
}

// awaitAnswers waits until each caller got some more answers.
func (s *busySite) awaitAnswers(more int) {
	s.Helper()
	answers := func() map[history.CallKind]int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return maps.Clone(s.answers)
	}
	before := answers()
	for _, kind := range kinds {
		natstest.Eventually(s, fmt.Sprintf("%s calls are answered", kind), func() bool {
			return s.Failed() || answers()[kind] >= before[kind]+more
		})
	}
	if s.Failed() {
		s.FailNow()
	}
}

// endCalls stops the callers, and checks that the server refused no message, but
// those for which docs/upgrades.md adds a right.
func (s *busySite) endCalls() {
	s.Helper()
	s.stopCallers()
	calls := 0
	for _, n := range s.answers {
		calls += n
	}
	sent := s.clientConn.Stats().OutMsgs
	s.Logf("%d calls in %v, all answered: %v; the client repeated %d of its requests, %d bare ones were told to",
		calls, time.Since(s.began), s.answers, sent-uint64(calls-s.answers[bare]), s.refused)
	spare := fmt.Sprintf("Publish Violation - Subject %q", loadmsg.LoadersSubject(messages.DefaultPrefix))
	for line := range strings.Lines(s.running.Stderr.String()) {
		if strings.Contains(line, "Violation") && (!s.lacking || !strings.Contains(line, spare)) {
			s.Errorf("the server refused: %s", line)
		}
	}
}
