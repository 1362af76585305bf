package dbtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// launchInstalled installs a server from the distribution's packages, and starts it. A
// program that was there already may have lacked something that they bring.
func launchInstalled(k *kind, args []string) (server, endpoint, string, error) {
	if err := aptInstall(k.packages); err != nil {
		return nil, endpoint{}, "", err
	}
	return launchBinary(k, args)
}

// aptInstall installs packages, one test process at a time.
func aptInstall(packages []string) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return errors.New("apt-get: not here, or not as root")
	}
	lock, err := os.Create(filepath.Join(os.TempDir(), "idworker-dbtest-apt.lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "dbtest: apt-get install %v\n", packages)
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
