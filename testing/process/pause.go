package process

import "syscall"

// Pause stops the process, and returns when none of its threads runs any more:
// on a busy machine a thread may do a lot of work before the signal stops it.
// It does nothing if the process has ended.
func (p *Process) Pause() {
	p.Signal(syscall.SIGSTOP)
	AwaitStopped(p.Cmd.Process.Pid)
}

// Resume lets a paused process go on.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }
