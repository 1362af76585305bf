package natstest

import (
	"fmt"
	"os"
	"sync"
)

// logger prints the server's messages in verbose runs, and keeps the last
// warning or error: a server that cannot start logs the reason here and nowhere
// else. Unlike with the server's own logger, a fatal message does not end the
// test process.
type logger struct {
	quiet bool

	mu   sync.Mutex
	last string
}

// trouble is the last warning, error or fatal message.
func (l *logger) trouble() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *logger) Noticef(format string, v ...any) { l.print("INF", format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.complain("WRN", format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.complain("ERR", format, v) }
func (l *logger) Fatalf(format string, v ...any)  { l.complain("FTL", format, v) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}

func (l *logger) complain(level, format string, v []any) {
	l.mu.Lock()
	l.last = fmt.Sprintf(format, v...)
	l.mu.Unlock()
	l.print(level, format, v)
}

func (l *logger) print(level, format string, v []any) {
	if !l.quiet {
		fmt.Fprintf(os.Stderr, "nats-server %s %s\n", level, fmt.Sprintf(format, v...))
	}
}
