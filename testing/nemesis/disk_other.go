//go:build !linux

package nemesis

import "errors"

// mountDisk makes no disks here, so the faults of disks are skipped.
func mountDisk(string, int) error { return errors.ErrUnsupported }

func unmountDisk(string) error { return errors.ErrUnsupported }

func mountExt4(string, string, int64) error { return errors.ErrUnsupported }

func mountImage(string, string) error { return errors.ErrUnsupported }

func cutPower(string) error { return errors.ErrUnsupported }

func syncDisk(string) error { return nil }
