//go:build !linux

package process

import "syscall"

// dieWithParent does nothing here: processes that a killed test leaves behind
// have to be killed by hand.
var dieWithParent *syscall.SysProcAttr
