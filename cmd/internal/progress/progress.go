// Package progress shows the progress of a command on a terminal.
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

// IsTerminal reports whether f is a file that is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// statusLine is a line on a terminal that is updated once a second, and removed
// at the end.
type statusLine struct {
	mu       sync.Mutex
	terminal io.Writer
	text     func() string // may return "" for no line
	shown    bool

	renewing *goroutines.Group
}

// start returns a line that is shown until Stop. The terminal may be nil.
func start(terminal io.Writer, text func() string) *statusLine {
	l := &statusLine{terminal: terminal, text: text, renewing: goroutines.New()}
	if terminal != nil {
		l.renewing.Start(func(ctx context.Context) {
			for pause.For(ctx, time.Second); ctx.Err() == nil; pause.For(ctx, time.Second) {
				l.show()
			}
		})
	}
	return l
}

func (l *statusLine) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := l.text(); text != "" {
		_, err := fmt.Fprintf(l.terminal, "\r%s\x1b[K", text)
		l.shown = err == nil
	}
}

// hide removes the line; mu is held.
func (l *statusLine) hide() {
	if l.shown {
		// An error here would matter to no caller.
		_, _ = fmt.Fprint(l.terminal, "\r\x1b[K")
		l.shown = false
	}
}

// Stop removes the line.
func (l *statusLine) Stop() {
	l.renewing.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hide()
}

// working counts calls of [Show], whose line replaces that of [Patience].
var working atomic.Int32

// Show runs a command's work. If stderr is a terminal, it shows a line about
// the work and updates it once a second.
func Show(work func(), text func() string) {
	if !IsTerminal(os.Stderr) {
		work()
		return
	}
	ShowOn(os.Stderr, work, text)
}

// ShowOn is [Show] on another writer, which may be nil.
func ShowOn(terminal io.Writer, work func(), text func() string) {
	working.Add(1)
	defer working.Add(-1)
	l := start(terminal, text)
	defer l.Stop()
	work()
}

// quiet is the time without output after which Patience shows its line.
const quiet = 2 * time.Second

// Patience is the output of a command that ends without a signal. If the
// command writes nothing for two seconds, Patience shows on a terminal that it
// runs.
type Patience struct {
	*statusLine
	out   io.Writer
	what  string
	began time.Time
	wrote time.Time // last
	open  bool      // the last line is incomplete, as a prompt
	lines int
}

// NewPatience returns the output of the command with the name what, above out.
// The terminal may be nil. Call Stop.
func NewPatience(out, terminal io.Writer, what string) *Patience {
	p := &Patience{out: out, what: what, began: time.Now(), wrote: time.Now()}
	p.statusLine = start(terminal, p.message)
	return p
}

// message returns the line; mu is held.
func (p *Patience) message() string {
	if p.open || working.Load() > 0 || time.Since(p.wrote) < quiet {
		return ""
	}
	so := ""
	if p.lines > 0 {
		so = fmt.Sprintf(", %d lines so far", p.lines)
	}
	return fmt.Sprintf("%s: running for %d s%s", p.what, int(time.Since(p.began).Seconds()), so)
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
