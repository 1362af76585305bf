package debian_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/debian"
)

// The tests of several packages run at once, and each may find that there is no server.
func TestAptGetRunsOnceAtATime(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: apt-get is not tried")
	}
	dir := t.TempDir()
	busy := filepath.Join(dir, "busy")
	script := "#!/bin/sh\nmkdir " + busy + " || exit 100\nsleep 0.1\nrmdir " + busy + "\n"
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := debian.Install("some-server"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
