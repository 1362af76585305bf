package history

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

// The first line of a history, before its layout.
const (
	header  = "# idworker history, layout "
	unknown = "unknown"
)

const bufferSize = 64 << 10

var (
	// ErrFormat is wrapped by the errors about what is not a history.
	ErrFormat = errors.New("not a history")

	// ErrBrokenOff is the error at the end of a history whose writer was killed.
	ErrBrokenOff = errors.New("the history breaks off")
)

// Writer writes a history to a file.
type Writer struct {
	file   *os.File
	zip    *gzip.Writer // nil: not compressed
	buffer *bufio.Writer
	line   []byte
}

// Create creates a file, which must not exist. The layout is that of snowflake IDs; the zero
// Layout says that it is not known.
func Create(name string, layout snowflake.Layout) (*Writer, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f}
	var to io.Writer = f
	if strings.HasSuffix(name, ".gz") {
		w.zip, _ = gzip.NewWriterLevel(f, gzip.BestSpeed) // fails only for a wrong level
		to = w.zip
	}
	w.buffer = bufio.NewWriterSize(to, bufferSize)
	text := unknown
	if !layout.IsZero() {
		text = layout.String()
	}
	_, _ = fmt.Fprintf(w.buffer, "%s%s\n", header, text)
	return w, nil
}

// Write writes one call; calls come in the order in which they were answered. An error is
// that of Close.
func (w *Writer) Write(c *Call) {
	w.line = append(c.appendLine(w.line[:0]), '\n')
	_, _ = w.buffer.Write(w.line)
}

// Close ends the file. Its error may be that of any write.
func (w *Writer) Close() error {
	err := w.buffer.Flush()
	if w.zip != nil {
		err = errors.Join(err, w.zip.Close())
	}
	return errors.Join(err, w.file.Close())
}

// Reader reads a history, compressed or not.
type Reader struct {
	layout snowflake.Layout
	in     *bufio.Reader
	line   int // that was read last, from 1 on
	latest *Call
}

// NewReader reads the first line. The error wraps [ErrFormat], or is one of reading.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, bufferSize)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		zip, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		in = bufio.NewReaderSize(zip, bufferSize)
	}
	h := &Reader{in: in}
	line, err := h.readLine()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text, ok := strings.CutPrefix(line, header)
	if !ok {
		return nil, fmt.Errorf("%w: its first line is %.60q, want %q and the layout", ErrFormat, line, header)
	}
	if text == unknown {
		return h, nil
	}
	if h.layout, err = snowflake.ParseLayout(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return h, nil
}

// Layout is the layout of the snowflake IDs. It is zero if it is not known.
func (h *Reader) Layout() snowflake.Layout { return h.layout }

// Next is the next call. The error is io.EOF at the end, [ErrBrokenOff] if the end is missing, wraps
// [ErrFormat] and names the line if the line is none, or is one of reading.
func (h *Reader) Next() (*Call, error) {
	line, err := h.readLine()
	if err != nil {
		return nil, err
	}
	c, err := parseCall(line)
	if err == nil && h.latest != nil && c.Received < h.latest.Received {
		err = fmt.Errorf("answered at %d, before the line above: lines are in the order of the answers", int64(c.Received))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, h.line, err)
	}
	h.latest = c
	return c, nil
}

func (h *Reader) readLine() (string, error) {
	line, err := h.in.ReadString('\n')
	switch {
	case err == nil:
		h.line++
		return strings.TrimSuffix(line, "\n"), nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF) && line != "":
		return "", fmt.Errorf("%w after line %d", ErrBrokenOff, h.line)
	}
	return "", err
}
