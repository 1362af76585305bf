package process

import (
	"bytes"
	"sync"
)

// Text is a process's output so far.
type Text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the text.
func (w *Text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

// String is all of it.
func (w *Text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// Tail is the last part of it.
func (w *Text) Tail() string {
	const most = 4000
	s := w.String()
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}
