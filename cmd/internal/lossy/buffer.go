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

// Buffer writes in a goroutine of its own. Write never blocks and never fails.
// Lines are dropped and counted while [Capacity] bytes wait, and if writing
// fails, as it does once a pipe's reader has ended. Its methods are thread-safe.
type Buffer struct {
	to   io.Writer
	wake chan struct{} // something waits, or the buffer is closed
	done chan struct{} // all is written

	mu      sync.Mutex
	waiting []byte
	closed  bool
	dropped int64 // in total
	told    int64 // of dropped, those that were reported
	report  func(dropped int64)
}

// New returns a buffer above to. Call Close.
func New(to io.Writer) *Buffer {
	b := &Buffer{to: to, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go b.run()
	return b
}

// Report sets a function that is called once lines can be written again, with
// the number of lines that were dropped since its last call. It may write.
func (b *Buffer) Report(f func(dropped int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report = f
}

// Dropped returns the number of lines that were dropped so far.
func (b *Buffer) Dropped() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Write accepts lines, or drops all of them. It returns their length and nil.
func (b *Buffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.waiting)+len(lines) > Capacity {
		b.dropped += count(lines)
		return len(lines), nil
	}
	b.waiting = append(b.waiting, lines...)
	b.signal()
	return len(lines), nil
}

// Sync returns nil at once; it makes a Buffer a zapcore.WriteSyncer.
func (b *Buffer) Sync() error { return nil }

// Close drops further lines, and waits until those before are written, at most
// for the given time: the reader may never come back.
func (b *Buffer) Close(within time.Duration) {
	b.mu.Lock()
	b.closed = true
	b.signal()
	b.mu.Unlock()
	select {
	case <-b.done:
	case <-time.After(within):
	}
}

// signal wakes the goroutine; mu is held.
func (b *Buffer) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run writes until the buffer is closed and nothing waits.
func (b *Buffer) run() {
	defer close(b.done)
	var spare []byte
	failing := false
	for range b.wake {
		lines, closed := b.take(spare)
		for ; len(lines) > 0; lines, closed = b.take(spare) {
			if !failing { // else the report would be lost as well
				b.reportDropped()
			}
			n, err := b.to.Write(lines)
			if failing = err != nil; failing {
				b.drop(lines[n:])
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
func (b *Buffer) take(spare []byte) (lines []byte, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		lines, b.waiting = b.waiting, spare[:0]
	}
	return lines, b.closed
}

// reportDropped reports lines that were dropped, while there is room for another.
func (b *Buffer) reportDropped() {
	b.mu.Lock()
	lost, report := b.dropped-b.told, b.report
	b.told = b.dropped
	b.mu.Unlock()
	if lost > 0 && report != nil {
		report(lost)
	}
}

func (b *Buffer) drop(lines []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += count(lines)
}

// count returns the number of lines, the last of which may lack its end.
func count(lines []byte) int64 {
	n := bytes.Count(lines, []byte{'\n'})
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		n++
	}
	return int64(n)
}
