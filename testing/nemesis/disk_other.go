//go:build !linux

package nemesis

import "errors"

// mountDisk makes no disks here, so the full-disk fault is skipped.
func mountDisk(string, int) error { return errors.ErrUnsupported }

func unmountDisk(string) error { return errors.ErrUnsupported }
