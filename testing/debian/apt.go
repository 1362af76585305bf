// Package debian installs what tests need from the distribution, so that nothing has to be installed by hand.
package debian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Install installs packages with apt-get, one test process at a time. The error says if there is no apt-get, or this
// is not root.
func Install(packages ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return errors.New("apt-get: not here, or not as root")
	}
	lock, err := os.Create(filepath.Join(os.TempDir(), "idworker-test-apt.lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "tests: apt-get install %v\n", packages)
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if aptGet(install...) == nil {
		return nil
	}
	// On a fresh machine there are no lists of packages yet.
	if err := aptGet("update"); err != nil {
		return err
	}
	return aptGet(install...)
}

func aptGet(args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %v: %w\n%s", args, err, out[max(0, len(out)-2000):])
	}
	return nil
}
