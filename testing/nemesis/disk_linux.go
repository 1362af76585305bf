package nemesis

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"
)

// mountDisk makes a folder a disk of its own, in memory. That takes root, and
// not every container's.
func mountDisk(folder string, size int) error {
	return syscall.Mount("idworker-nemesis", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size))
}

// unmountDisk undoes mountDisk or mountExt4. It fails if that had failed.
func unmountDisk(folder string) error { return syscall.Unmount(folder, 0) }

// mountExt4 makes a folder a disk of its own, an ext4 in a file. That takes loop
// devices as well.
func mountExt4(image, folder string, size int64) error {
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	if err := command("mkfs.ext4", "-q", "-F", "-m", "0", image); err != nil {
		return err
	}
	return mountImage(image, folder)
}

// mountImage mounts a disk, and has ext4 replay its journal.
func mountImage(image, folder string) error {
	return command("mount", "-o", "loop", image, folder)
}

// syncDisk writes to a disk what was written to its files.
func syncDisk(folder string) error { return command("sync", "-f", folder) }

// command runs a command of the system.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of the kernel's fs/ext4.
const (
	ioctlShutdown = 0x8004587d
	noFlush       = 2
)

// errNoMount: a folder is not a disk of its own, but on the machine's.
var errNoMount = errors.New("not a disk of its own")

// cutPower has a disk lose what is not on it, and refuse everything from then
// on, as if the power failed.
func cutPower(folder string) error {
	var disk, parent syscall.Stat_t
	if err := errors.Join(syscall.Stat(folder, &disk), syscall.Stat(filepath.Dir(folder), &parent)); err != nil {
		return err
	}
	if disk.Dev == parent.Dev {
		return errNoMount
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags := uint32(noFlush)
	if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&flags))); failed != 0 {
		return failed
	}
	return nil
}
