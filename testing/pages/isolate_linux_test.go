package pages

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate gives the calling goroutine, and the processes that it starts, a
// network of their own, in which every port is free. Only root may. Sockets
// that others open are in the old network, wherever they are used.
func isolate() bool {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	return unix.Unshare(unix.CLONE_NEWNET) == nil && loopbackUp() == nil
}

func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

// groupOfItsOwn is for a shell: Ctrl-C goes to its group. If it is the first
// process of a namespace, the others there end with it, and it ends with the
// test.
func groupOfItsOwn(namespace bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if namespace {
		attr.Cloneflags = syscall.CLONE_NEWPID
	}
	return attr
}
