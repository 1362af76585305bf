// Package lossy writes lines to a pipe, terminal or file that may stop taking
// them, without ever blocking who writes: a server must not wait for the reader
// of its log.
package lossy

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// Capacity is the number of bytes that wait to be written, at most.
const Capacity = 1 << 20

// Writer writes in a goroutine of its own. Write never blocks and never fails.
// Lines are dropped and counted while [Capacity] bytes wait, and if writing
// fails, as it does once a pipe's reader has ended. Its methods are thread-safe.
type Writer struct {
	to   io.Writer
	wake chan struct{} // something waits, or the writer is closed
	done chan struct{} // all is written

	mu      sync.Mutex
	waiting []byte
	closed  bool
	dropped int64 // in total
	told    int64 // of dropped, those that were reported
	report  func(dropped int64)
}

// New returns a writer above to. Call Close.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Report sets a function that is called once lines can be written again, with
// the number of lines that were dropped since its last call. It may write.
func (w *Writer) Report(f func(dropped int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = f
}

// Dropped returns the number of lines that were dropped so far.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Write accepts lines, or drops all of them. It returns their length and nil.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.waiting)+len(lines) > Capacity {
		w.dropped += count(lines)
		return len(lines), nil
	}
	w.waiting = append(w.waiting, lines...)
	w.signal()
	return len(lines), nil
}

// Sync returns nil at once; it makes a Writer a zapcore.WriteSyncer.
func (w *Writer) Sync() error { return nil }

// Close drops further lines, and waits until those before are written, at most
// for the given time: the reader may never come back.
func (w *Writer) Close(within time.Duration) {
	w.mu.Lock()
	w.closed = true
	w.signal()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(within):
	}
}

// signal wakes the goroutine; mu is held.
func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes until the writer is closed and nothing waits.
func (w *Writer) run() {
	defer close(w.done)
	var spare []byte
	failing := false
	for range w.wake {
		lines, closed := w.take(spare)
		for ; len(lines) > 0; lines, closed = w.take(spare) {
			if !failing { // else the report would be lost as well
				w.reportDropped()
			}
			n, err := w.to.Write(lines)
			if failing = err != nil; failing {
				w.drop(lines[n:])
			}
			spare = lines
		}
		if closed {
			return
		}
	}
}

// take returns the lines that wait. If there are any, further ones wait in
// spare. closed reports that there will be no others.
func (w *Writer) take(spare []byte) (lines []byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 {
		lines, w.waiting = w.waiting, spare[:0]
	}
	return lines, w.closed
}

// reportDropped reports lines that were dropped, while there is room for another.
func (w *Writer) reportDropped() {
	w.mu.Lock()
	lost, report := w.dropped-w.told, w.report
	w.told = w.dropped
	w.mu.Unlock()
	if lost > 0 && report != nil {
		report(lost)
	}
}

func (w *Writer) drop(lines []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropped += count(lines)
}

// count returns the number of lines, the last of which may lack its end.
func count(lines []byte) int64 {
	n := bytes.Count(lines, []byte{'\n'})
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		n++
	}
	return int64(n)
}
