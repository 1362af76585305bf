package process

import "syscall"

// dieWithParent has the kernel kill a process when the test process is gone,
// even if that was killed.
var dieWithParent = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
