package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Settings describe a process's start, apart from its arguments.
type Settings struct {
	Binary string
	Dir    string // working directory
	Stdin  string
	Env    []string  // NAME=value, in addition to NeutralEnv
	Log    io.Writer // for stderr; nil: Process.Stderr
}

// Process is a program that was started.
type Process struct {
	Cmd    *exec.Cmd
	Stdout Text
	Stderr Text
	Ended  chan struct{} // closed when the process is gone
}

// Launch starts a process.
func (s Settings) Launch(args ...string) (*Process, error) {
	p := &Process{Ended: make(chan struct{})}
	p.Cmd = exec.Command(s.Binary, args...)
	p.Cmd.Dir = s.Dir
	p.Cmd.Env = append(NeutralEnv(), s.Env...)
	p.Cmd.Stdin = strings.NewReader(s.Stdin)
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Stdout, &p.Stderr
	if s.Log != nil {
		p.Cmd.Stderr = s.Log
	}
	p.Cmd.SysProcAttr = dieWithParent
	if err := start(p.Cmd); err != nil {
		return nil, fmt.Errorf("start %s %s: %w", s.Binary, strings.Join(args, " "), err)
	}
	go func() {
		_ = p.Cmd.Wait() // the exit code is in ProcessState
		close(p.Ended)
	}()
	return p, nil
}

// Signal sends a signal, which does nothing if the process has ended.
func (p *Process) Signal(s syscall.Signal) { _ = p.Cmd.Process.Signal(s) }

// Kill ends the process the way a crash does, and returns when it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Ended
}

// HasEnded reports whether the process is gone.
func (p *Process) HasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// NeutralEnv is the environment of the test, without variables that idworker
// reads.
func NeutralEnv() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "IDWORKER_") {
			env = append(env, v)
		}
	}
	return env
}
