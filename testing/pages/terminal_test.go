package pages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// patience bounds actions that take seconds on a busy machine.
var patience = natstest.Patience

// staying are commands that stay until Ctrl-C, and the output that shows they
// are ready.
var staying = []struct{ command, ready *regexp.Regexp }{
	{regexp.MustCompile(`^make run$`), regexp.MustCompile(`Stop: +Ctrl-C`)},
	{regexp.MustCompile(`(?:^make nats\b|nats-server -c)`), regexp.MustCompile(`Server is ready`)},
	{regexp.MustCompile(`\bidworker serve\b`), regexp.MustCompile(`\tserving\t`)},
	{regexp.MustCompile(`\bidworker enrich --from`), regexp.MustCompile(`\tenriching\t`)},
}

// terminal is a shell that runs a command at a time. A file keeps its variables
// between commands, so that each command is a process group of its own, to
// which Ctrl-C goes.
type terminal struct {
	state string
	dir   string
	env   []string
	pids  bool // processes are in a namespace of their own, and end with their shell
	busy  *running
}

// running is a command.
type running struct {
	command string
	cmd     *exec.Cmd
	output  process.Text
	ended   chan struct{}
	err     error
}

// start starts a command.
func (t *terminal) start(command string, stays bool) (*running, error) {
	script := fmt.Sprintf("[ ! -e %[1]q ] || . %[1]q 2>/dev/null\n%[2]s\n", t.state, command)
	if !stays {
		script += fmt.Sprintf("code=$?; { declare -p | grep -v '^declare -[a-zA-Z]*r'; printf 'cd %%q\\n' \"$PWD\"; } > %q; exit $code\n", t.state)
	}
	r := &running{command: command, cmd: exec.Command("bash", "-c", script), ended: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env = t.dir, t.env
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	r.cmd.SysProcAttr = groupOfItsOwn(t.pids)
	r.cmd.WaitDelay = 10 * time.Second
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r, nil
}

// wait returns how the command ended.
func (r *running) wait() error {
	select {
	case <-r.ended:
		return r.err
	case <-time.After(patience):
		return fmt.Errorf("it still runs after %v", patience)
	}
}

// until waits until the output is as expected.
func (r *running) until(fine func(printed []string) bool) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-r.ended:
			if fine(r.lines()) {
				return nil
			}
			return fmt.Errorf("it ended: %w", errors.Join(r.err, errors.New("before it printed what it should")))
		default:
		}
		if fine(r.lines()) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v", patience)
		}
	}
}

// interrupt is Ctrl-C.
func (r *running) interrupt() { _ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT) }

// end ends the command, whatever it does.
func (r *running) end() error {
	r.interrupt()
	select {
	case <-r.ended:
		return nil
	case <-time.After(patience):
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		<-r.ended
		return fmt.Errorf("%s: still there %v after Ctrl-C", r.command, patience)
	}
}

// lines are those that were printed so far.
func (r *running) lines() []string {
	text := strings.TrimRight(r.output.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// environment is that of a reader's terminal, with the caches of this machine.
func environment(home, tools string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	dirs := strings.Split(strings.TrimSpace(string(out)), "\n")
	// On a terminal, curl shows no progress if it prints the response.
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte("silent\nshow-error\n"), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"HOME=" + home, "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=" + os.TempDir(), "TZ=UTC",
		"PATH=" + tools + ":" + filepath.Join(dirs[2], "bin") + ":" + os.Getenv("PATH"),
		"GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOTOOLCHAIN=local",
		"GOPROXY=file://" + filepath.Join(dirs[1], "cache", "download"), "GOSUMDB=off", "GOFLAGS=-buildvcs=false",
	}, nil
}
