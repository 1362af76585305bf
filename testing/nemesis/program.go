package nemesis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/idworker/idworker/testing/process"
)

// Supervised is a program of the cast that is restarted when it ends, as a
// supervisor does, unless a fault holds it down.
type Supervised struct {
	Name     string
	settings process.Program
	args     []string
	ended    func(p *Supervised, code int) // called after an unrequested end
	log      *os.File

	mu      sync.Mutex
	running *process.Running
	held    int // faults that keep it from being started
	extra   []string
	changed chan struct{} // wakes the supervisor
	closing bool
	done    chan struct{}
}

// restartAfter is a supervisor's delay.
const restartAfter = time.Second

// startProgram starts a program, with its log in a folder.
func startProgram(folder, name string, settings process.Program, ended func(*Supervised, int), args ...string) (*Supervised, error) {
	log, err := os.OpenFile(filepath.Join(folder, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	settings.Log = log
	p := &Supervised{
		Name: name, settings: settings, args: args, ended: ended, log: log,
		changed: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go p.supervise()
	return p, nil
}

// supervise keeps the program running.
func (p *Supervised) supervise() {
	defer close(p.done)
	for {
		run, closing := p.next()
		switch {
		case closing:
			return
		case run == nil:
			<-p.changed
			continue
		}
		<-run.Ended
		p.mu.Lock()
		p.running = nil
		expected := p.held > 0 || p.closing
		p.mu.Unlock()
		code := run.Cmd.ProcessState.ExitCode()
		_, _ = fmt.Fprintf(p.log, "nemesis: %s %s ended: %v\n", time.Now().Format(time.RFC3339Nano), p.Name, run.Cmd.ProcessState)
		if !expected {
			p.ended(p, code)
			time.Sleep(restartAfter)
		}
	}
}

// next starts the program unless it is held.
func (p *Supervised) next() (run *process.Running, closing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.held > 0 {
		return nil, p.closing
	}
	s := p.settings
	s.Env = append(s.Env[:len(s.Env):len(s.Env)], p.extra...)
	_, _ = fmt.Fprintf(p.log, "nemesis: %s %s starts: %s\n", time.Now().Format(time.RFC3339Nano), p.Name, strings.Join(p.args, " "))
	run, err := s.Launch(p.args...)
	if err != nil {
		_, _ = fmt.Fprintf(p.log, "nemesis: %v\n", err)
		p.closing = true
		return nil, true
	}
	p.running = run
	return run, false
}

func (p *Supervised) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Hold keeps the program from being started, until Release.
func (p *Supervised) Hold() *process.Running {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
	return p.running
}

// Release ends a Hold. The environment contains extra from the next start.
func (p *Supervised) Release(extra ...string) {
	p.mu.Lock()
	p.held--
	p.extra = extra
	p.mu.Unlock()
	p.wake()
}

// Kill kills the program as a crash does and keeps it down until Release.
func (p *Supervised) Kill() {
	if run := p.Hold(); run != nil {
		run.Kill()
	}
}

// Terminate sends SIGTERM, and keeps the program down until Release. If the
// program has not ended in time, Terminate kills it and returns an error.
func (p *Supervised) Terminate(within time.Duration) error {
	run := p.Hold()
	if run == nil {
		return nil
	}
	run.Signal(syscall.SIGTERM)
	select {
	case <-run.Ended:
		return nil
	case <-time.After(within):
		run.Signal(syscall.SIGQUIT) // its goroutines go into the log
		time.Sleep(time.Second)
		run.Kill()
		return fmt.Errorf("%s did not end within %v after SIGTERM", p.Name, within)
	}
}

// Pause stops the program if it runs, and returns when nothing of it runs any
// more.
func (p *Supervised) Pause() (resume func()) {
	p.mu.Lock()
	run := p.running
	p.mu.Unlock()
	if run == nil {
		return func() {}
	}
	run.Pause()
	return run.Resume
}

// Close kills the program for good.
func (p *Supervised) Close() {
	p.mu.Lock()
	p.closing = true
	run := p.running
	p.mu.Unlock()
	if run != nil {
		run.Kill()
	}
	p.wake()
	<-p.done
	_ = p.log.Close()
}

// lastWords is the last line of the program's own in its log.
func (p *Supervised) lastWords() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range slices.Backward(lines) {
		if !strings.HasPrefix(line, "nemesis: ") {
			return line
		}
	}
	return ""
}
