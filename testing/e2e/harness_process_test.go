package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	proc "github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// process is a running idworker, which ends with its test.
type process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	stdout *proc.Text
	stderr *proc.Text
	ended  chan struct{} // closed when the process is gone
	run    *proc.Running
}

// settings are how a process is started, apart from its arguments.
type settings struct {
	binary string // the race detector's, if empty
	dir    string // working directory
	stdin  string
	env    []string // NAME=value, in addition to neutralEnv
}

// launch starts idworker.
func (s settings) launch(t testing.TB, args ...string) *process {
	t.Helper()
	if s.binary == "" {
		s.binary = binary
	}
	run := proc.Program{Binary: s.binary, Dir: s.dir, Stdin: s.stdin, Env: append(gorace(), s.env...)}.Start(t, args...)
	return &process{
		t: t, name: strings.Join(args, " "), run: run,
		cmd: run.Cmd, stdout: &run.Stdout, stderr: &run.Stderr, ended: run.Ended,
	}
}

// raceExit is the sleep of a process with the race detector before it exits
// with 0, in case a goroutine still has a race to show. The default of a second
// would add up to minutes.
var raceExit = fmt.Sprintf("GORACE=atexit_sleep_ms=%d", tier.Pick(20, 1000))

// neutralEnv is the environment of the test, without variables that idworker
// reads.
func neutralEnv() []string { return append(proc.NeutralEnv(), gorace()...) }

// gorace is raceExit, unless the test's environment sets GORACE.
func gorace() []string {
	if os.Getenv("GORACE") != "" {
		return nil
	}
	return []string{raceExit}
}

// signal sends a signal, which does nothing if the process has ended.
func (p *process) signal(s syscall.Signal) { p.run.Signal(s) }

// pause returns when nothing of the process runs any more.
func (p *process) pause() { p.run.Pause() }

func (p *process) resume() { p.run.Resume() }

// kill ends the process the way a crash does.
func (p *process) kill() { p.run.Kill() }

// stop sends SIGTERM, waits for the end, and fails the test unless the exit
// code is 0.
func (p *process) stop(s syscall.Signal) {
	p.t.Helper()
	p.signal(s)
	if code := p.wait(); code != 0 {
		p.t.Errorf("idworker %s: exit code %d after %v", p.name, code, s)
	}
}

// wait returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	return p.run.Wait(p.t)
}

// serving waits until the process has joined the queue group.
func (p *process) serving() {
	p.t.Helper()
	p.run.AwaitLog(p.t, "\tserving\t")
}

// servesOrEnds waits until the process serves, or has ended instead.
func (p *process) servesOrEnds() (serves bool) {
	p.t.Helper()
	return p.run.LogsOrEnds(p.t, "\tserving\t")
}

func (p *process) hasEnded() bool { return p.run.HasEnded() }

var instanceInLog = regexp.MustCompile(`"instance": "([^"]+)"`)

// instance is the process's name, under which it gets its grants.
func (p *process) instance() string {
	p.t.Helper()
	found := instanceInLog.FindStringSubmatch(p.stderr.String())
	if found == nil {
		p.t.Fatalf("idworker %s does not log its instance:\n%s", p.name, p.stderr.Tail())
	}
	return found[1]
}

// host is an idworker with a NATS server in it.
type host struct {
	*process
	url string
}

// startServer runs a worker with an embedded NATS server on a data folder, and
// returns when it serves.
func startServer(t testing.TB, data string, args ...string) *host {
	t.Helper()
	return settings{}.startServer(t, data, args...)
}

func (s settings) startServer(t testing.TB, data string, args ...string) *host {
	t.Helper()
	address := freeport.Address(t)
	p := s.launch(t, append([]string{"serve", "--listen", address, "--data", data}, args...)...)
	p.serving()
	return &host{p, "nats://" + address}
}

// startWorker runs a worker on an existing NATS server, and returns when it
// serves.
func startWorker(t testing.TB, url string, args ...string) *process {
	t.Helper()
	return settings{}.startWorker(t, url, args...)
}

func (s settings) startWorker(t testing.TB, url string, args ...string) *process {
	t.Helper()
	p := s.launch(t, append([]string{"serve", "--server", url}, args...)...)
	p.serving()
	return p
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// lines are the lines of stdout.
func (r result) lines() []string { return strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n") }

// run runs a command to its end.
func run(t testing.TB, args ...string) result {
	t.Helper()
	return settings{}.run(t, args...)
}

func (s settings) run(t testing.TB, args ...string) result {
	t.Helper()
	p := s.launch(t, args...)
	code := p.wait()
	return result{code, p.stdout.String(), p.stderr.String()}
}

// mustRun runs a command that has to succeed.
func (s settings) mustRun(t testing.TB, args ...string) result {
	t.Helper()
	r := s.run(t, args...)
	if r.code != 0 {
		t.Fatalf("idworker %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// must runs a command that has to succeed.
func must(t testing.TB, args ...string) result {
	t.Helper()
	return settings{}.mustRun(t, args...)
}

// succeeds runs a command until it succeeds: the machine may be busy.
func (s settings) succeeds(t testing.TB, args ...string) (r result) {
	t.Helper()
	natstest.Eventually(t, "idworker "+strings.Join(args, " ")+" succeeds", func() bool {
		r = s.run(t, args...)
		return r.code == exitOK
	})
	return r
}

// killBefore runs a command that is connected by way of a proxy, and kills it
// before it sends a text. Nothing from that text on arrives.
func (s settings) killBefore(t testing.TB, via *proxy.Proxy, text string, args ...string) {
	t.Helper()
	sent := via.Freeze(proxy.ToServer, text)
	p := s.launch(t, args...)
	select {
	case <-sent:
	case <-p.ended:
		t.Fatalf("idworker %s ended before it sent %q: %s", p.name, text, p.stderr.Tail())
	}
	p.kill()
	via.Refuse()
}

// The exit codes, as cmd/idworker/problems.go and docs/command-line.md list
// them.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNoTag     = 3
	exitTryLater  = 4
	exitExhausted = 5
)

// createTag creates a tag, and waits until a worker has answered a request for
// an ID.
func createTag(t testing.TB, url, tag string, args ...string) {
	t.Helper()
	must(t, append([]string{"tag", "create", "--server", url, tag}, args...)...)
	dial(t, url).next(t, tag)
}
