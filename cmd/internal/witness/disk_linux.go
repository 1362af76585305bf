package witness

import (
	"slices"

	"golang.org/x/sys/unix"
)

// inMemory reports whether a path is on a file system that does not outlast the
// machine.
func inMemory(path string) bool {
	var at unix.Statfs_t
	return unix.Statfs(path, &at) == nil && slices.Contains([]uint32{unix.TMPFS_MAGIC, unix.RAMFS_MAGIC}, uint32(at.Type))
}

// sameDisk reports whether two paths are on one file system.
func sameDisk(a, b string) bool {
	var at, of unix.Stat_t
	return unix.Stat(a, &at) == nil && unix.Stat(b, &of) == nil && at.Dev == of.Dev
}
