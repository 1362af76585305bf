//go:build !linux

package nemesis

import "errors"

// mountDisk makes no disks here, so the fault of a full one is not done.
func mountDisk(string, int) error { return errors.ErrUnsupported }

func unmountDisk(string) error { return errors.ErrUnsupported }
