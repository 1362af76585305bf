package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// quiet is after how long without a word somebody is told that a command is still at work.
const quiet = 2 * time.Second

// Patience is the output of a command that ends by itself. While nothing is written to it for longer
// than two seconds, it says so on a terminal, in a line that goes away again.
type Patience struct {
	mu       sync.Mutex
	out      io.Writer
	terminal io.Writer
	what     string
	began    time.Time
	wrote    time.Time // last
	open     bool      // the last line has no end: a question, perhaps
	lines    int
	shown    bool

	stop, stopped chan struct{}
}

// NewPatience returns the output of the command that is called what, above out. The terminal is nil if there is
// none. Stop is to be called.
func NewPatience(out, terminal io.Writer, what string) *Patience {
	p := &Patience{
		out: out, terminal: terminal, what: what, began: time.Now(), wrote: time.Now(),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if terminal == nil {
		close(p.stopped)
		return p
	}
	go p.watch()
	return p
}

// Write writes to the output.
func (p *Patience) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	p.wrote = time.Now()
	for _, b := range data {
		p.open = b != '\n'
		if b == '\n' {
			p.lines++
		}
	}
	return p.out.Write(data)
}

// Stop ends it.
func (p *Patience) Stop() {
	close(p.stop)
	<-p.stopped
}

func (p *Patience) watch() {
	defer close(p.stopped)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			p.mu.Lock()
			p.hide()
			p.mu.Unlock()
			return
		case <-ticker.C:
			p.show()
		}
	}
}

func (p *Patience) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open || time.Since(p.wrote) < quiet {
		return
	}
	so := ""
	if p.lines > 0 {
		so = fmt.Sprintf(", %d lines so far", p.lines)
	}
	_, err := fmt.Fprintf(p.terminal, "\r%s: at work for %d s%s\x1b[K", p.what, int(time.Since(p.began).Seconds()), so)
	p.shown = err == nil
}

func (p *Patience) hide() {
	if p.shown {
		_, _ = fmt.Fprint(p.terminal, "\r\x1b[K") // what was shown is of no importance
		p.shown = false
	}
}
