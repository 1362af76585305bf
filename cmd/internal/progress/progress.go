// Package progress shows on a terminal how far a command is.
package progress

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/pause"
)

// IsTerminal reports whether something is a file that is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// line is a line on a terminal that is renewed once a second, and removed in the end.
type line struct {
	mu       sync.Mutex
	terminal io.Writer
	text     func() string // "" if there is nothing to say now
	shown    bool

	renewing *goroutines.Group
}

// start returns a line that is shown until Stop. The terminal is nil if there is none.
func start(terminal io.Writer, text func() string) *line {
	l := &line{terminal: terminal, text: text, renewing: goroutines.New()}
	if terminal != nil {
		l.renewing.Start(func(ctx context.Context) {
			for pause.For(ctx, time.Second); ctx.Err() == nil; pause.For(ctx, time.Second) {
				l.show()
			}
		})
	}
	return l
}

func (l *line) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := l.text(); text != "" {
		_, err := fmt.Fprintf(l.terminal, "\r%s\x1b[K", text)
		l.shown = err == nil
	}
}

// hide removes it; mu is held.
func (l *line) hide() {
	if l.shown {
		_, _ = fmt.Fprint(l.terminal, "\r\x1b[K") // what was shown is of no importance
		l.shown = false
	}
}

// Stop ends it.
func (l *line) Stop() {
	l.renewing.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hide()
}

// working counts calls of [Show], whose line takes the place of that of [Patience].
var working atomic.Int32

// Show runs a command's work, and meanwhile shows a line about it once a second, if stderr is a
// terminal.
func Show(work func(), text func() string) {
	if !IsTerminal(os.Stderr) {
		work()
		return
	}
	working.Add(1)
	defer working.Add(-1)
	l := start(os.Stderr, text)
	defer l.Stop()
	work()
}

// quiet is after how long without a word a command is said to be still at work.
const quiet = 2 * time.Second

// Patience is the output of a command that ends by itself. While nothing is written to it for longer
// than two seconds, it says so on a terminal, in a line that goes away again.
type Patience struct {
	*line
	out   io.Writer
	what  string
	began time.Time
	wrote time.Time // last
	open  bool      // the last line has no end: a question, perhaps
	lines int
}

// NewPatience returns the output of the command that is called what, above out. The terminal is nil if there is
// none. Stop is to be called.
func NewPatience(out, terminal io.Writer, what string) *Patience {
	p := &Patience{out: out, what: what, began: time.Now(), wrote: time.Now()}
	p.line = start(terminal, p.say)
	return p
}

// say is what is shown; mu is held.
func (p *Patience) say() string {
	if p.open || working.Load() > 0 || time.Since(p.wrote) < quiet {
		return ""
	}
	so := ""
	if p.lines > 0 {
		so = fmt.Sprintf(", %d lines so far", p.lines)
	}
	return fmt.Sprintf("%s: at work for %d s%s", p.what, int(time.Since(p.began).Seconds()), so)
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
