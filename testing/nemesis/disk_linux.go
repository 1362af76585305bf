package nemesis

import (
	"fmt"
	"syscall"
)

// mountDisk makes a folder a disk of its own, in memory. That takes root, and
// not every container's.
func mountDisk(folder string, size int) error {
	return syscall.Mount("idworker-nemesis", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size))
}

// unmountDisk undoes mountDisk. It fails if that had failed.
func unmountDisk(folder string) error { return syscall.Unmount(folder, 0) }
