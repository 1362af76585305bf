package nemesis

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/idworker/idworker/snowflake"
)

// History is a file that answers are written to.
type History struct {
	file   *os.File
	zip    *gzip.Writer
	buffer *bufio.Writer
	line   []byte
}

// CreateHistory creates the file.
func CreateHistory(name string) (*History, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	zip, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	return &History{file: f, zip: zip, buffer: bufio.NewWriterSize(zip, 64<<10)}, nil
}

// Write writes one call. An error is also that of Close.
func (h *History) Write(c *Call) {
	h.line = append(c.appendLine(h.line[:0]), '\n')
	_, _ = h.buffer.Write(h.line)
}

// Close ends the file.
func (h *History) Close() error {
	return errors.Join(h.buffer.Flush(), h.zip.Close(), h.file.Close())
}

// ReadHistory calls a function with each call of a history, compressed or not. A compressed one that breaks off
// is read as far as it goes.
func ReadHistory(r io.Reader, f func(*Call)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		zip, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(zip, 64<<10)
	}
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := parseCall(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		f(c)
	}
}

// CheckHistory checks a recorded history alone: no ID twice, strict tags and snowflake IDs in order.
func CheckHistory(r io.Reader, layout snowflake.Layout) (*Checker, error) {
	c := NewChecker(layout, nil)
	err := ReadHistory(r, c.Check)
	return c, err
}

// Report says what a checker has seen.
func (c *Checker) Report() string {
	ids, answers, ranges := c.Counts()
	return fmt.Sprintf("%d IDs in %d answers checked, kept as %d ranges; %d violations", ids, answers, ranges, len(c.Violations()))
}
