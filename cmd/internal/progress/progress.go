// Package progress shows how far a command is.
package progress

import (
	"fmt"
	"os"
	"time"
)

// Show runs a command's work, and meanwhile shows a line about it once a second. It does so only
// if stderr is a terminal.
func Show(work func(), line func() string) {
	if !IsTerminal(os.Stderr) {
		work()
		return
	}
	done, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		showUntil(done, line)
	}()
	work()
	close(done)
	<-shown
}

// IsTerminal reports whether something is a file that is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func showUntil(done <-chan struct{}, line func() string) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			fmt.Fprint(os.Stderr, "\r\x1b[K")
			return
		case <-ticker.C:
			fmt.Fprintf(os.Stderr, "\r%s \x1b[K", line())
		}
	}
}
