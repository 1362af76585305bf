//go:build !linux

package e2e

import "syscall"

// dieWithParent is nothing here: processes that a killed test leaves behind have to
// be ended by hand.
var dieWithParent *syscall.SysProcAttr
