package process

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// Start starts a process that ends with the test. It fails the test if the
// process reports a data race, and shows the output if the test failed.
func (s Program) Start(t testing.TB, args ...string) *Running {
	t.Helper()
	p, err := s.Launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if strings.Contains(p.Stderr.String(), "DATA RACE") {
			t.Errorf("%s reported a data race", p.Name())
		}
		if t.Failed() {
			t.Logf("%s: %v\n%s%s", p.Name(), p.Cmd.ProcessState, p.Stdout.Tail(), p.Stderr.Tail())
		}
	})
	return p
}

// Name is the program and its arguments.
func (p *Running) Name() string {
	return filepath.Base(p.Cmd.Path) + " " + strings.Join(p.Cmd.Args[1:], " ")
}

// AwaitLog waits until the process has logged a text. It fails the test if the
// process ends before.
func (p *Running) AwaitLog(t testing.TB, text string) {
	t.Helper()
	if !p.LogsOrEnds(t, text) {
		t.Fatalf("%s ended before it logged %q: %v\n%s", p.Name(), text, p.Cmd.ProcessState, p.Stderr.Tail())
	}
}

// LogsOrEnds waits until the process has logged a text or ended, and reports
// whether it has logged the text.
func (p *Running) LogsOrEnds(t testing.TB, text string) (logs bool) {
	t.Helper()
	natstest.Eventually(t, p.Name()+" logs "+text, func() bool {
		ended := p.HasEnded()
		logs = strings.Contains(p.Stderr.String(), text)
		return logs || ended
	})
	return logs
}

// Wait waits for the end, and returns the exit code.
func (p *Running) Wait(t testing.TB) int {
	t.Helper()
	natstest.Eventually(t, p.Name()+" ends", p.HasEnded)
	return p.Cmd.ProcessState.ExitCode()
}

// Stop sends SIGTERM, and fails the test unless the exit code is 0.
func (p *Running) Stop(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("%s: exit code %d after SIGTERM\n%s", p.Name(), code, p.Stderr.Tail())
	}
}
