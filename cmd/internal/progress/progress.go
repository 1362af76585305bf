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
	info, err := os.Stderr.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
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
