package process

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is a program, and how it is started, apart from its arguments.
type Program struct {
	Binary string
	Dir    string // working directory
	Stdin  string
	Env    []string  // NAME=value, in addition to NeutralEnv
	Log    io.Writer // for stderr; nil: Running.Stderr

	// Within bounds the time of Run, to find hangs; 0: 4 minutes.
	Within time.Duration
}

// Running is a program that was started, also when it has ended.
type Running struct {
	Cmd    *exec.Cmd
	Stdout Text
	Stderr Text
	Ended  chan struct{} // closed when the process is gone
}

// Launch starts a process.
func (s Program) Launch(args ...string) (*Running, error) {
	p := &Running{Ended: make(chan struct{})}
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

// Run runs a command to its end. The error has the output of one that fails.
func (s Program) Run(args ...string) (*Running, error) {
	p, err := s.Launch(args...)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Ended:
	case <-time.After(cmp.Or(s.Within, 4*time.Minute)):
		p.Kill()
	}
	if !p.Cmd.ProcessState.Success() {
		err = fmt.Errorf("%s %s: %v\n%s%s", s.Binary, strings.Join(args, " "), p.Cmd.ProcessState, p.Stdout.Tail(), p.Stderr.Tail())
	}
	return p, err
}

// Signal sends a signal, which does nothing if the process has ended.
func (p *Running) Signal(s syscall.Signal) { _ = p.Cmd.Process.Signal(s) }

// Kill ends the process the way a crash does, and returns when it is gone.
func (p *Running) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Ended
}

// HasEnded reports whether the process is gone.
func (p *Running) HasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// NeutralEnv is the environment of the test, without variables that idworker
// reads. Loaders have no witness by default: its folder would be shared with
// other tests, whose servers may have had the same address.
func NeutralEnv() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "IDWORKER_") && !strings.HasPrefix(v, StateFolder) {
			env = append(env, v)
		}
	}
	return append(env, StateFolder+NoFolder)
}

// StateFolder is the variable, with its =, that names the folder of witnesses.
const StateFolder = "STATE_DIRECTORY="

// NoFolder is a path at which no folder can be made.
const NoFolder = "/dev/null/none"

// Pause stops the process, and returns when none of its threads runs any more:
// on a busy machine a thread may do a lot of work before the signal stops it.
// It does nothing if the process has ended.
func (p *Running) Pause() {
	p.Signal(syscall.SIGSTOP)
	AwaitStopped(p.Cmd.Process.Pid)
}

// Resume lets a paused process go on.
func (p *Running) Resume() { p.Signal(syscall.SIGCONT) }

// spawn runs a function on the thread that starts all processes. The kernel
// kills a process when the thread that started it ends, not when the process
// does, so this thread has to stay.
var spawn = sync.OnceValue(func() chan<- func() {
	functions := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range functions {
			f()
		}
	}()
	return functions
})

// start starts a command on that thread.
func start(cmd *exec.Cmd) error {
	result := make(chan error)
	spawn() <- func() { result <- cmd.Start() }
	return <-result
}
