package process

import (
	"os/exec"
	"runtime"
	"sync"
)

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
