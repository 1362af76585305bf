//go:build !linux

package pages

import "syscall"

func isolate() bool { return false }

func groupOfItsOwn(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
