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

// Header begins a history; the layout of snowflake IDs follows, or "unknown".
// Then comes a line for each call, in the order of the replies.
const Header = "# idworker history, layout "

// Writer writes a history to a file.
type Writer struct {
	file   *os.File
	zip    *gzip.Writer // nil: not compressed
	buffer *bufio.Writer
}

// Create creates a file, which must not exist. It is compressed if its name
// ends in .gz. The zero Layout is recorded as unknown.
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
	w.buffer = bufio.NewWriterSize(to, 64<<10)
	text := "unknown"
	if !layout.IsZero() {
		text = layout.String()
	}
	_, _ = fmt.Fprintf(w.buffer, "%s%s\n", Header, text)
	return w, nil
}

// Write writes a call; calls come in the order of their replies. Close returns
// its error.
func (w *Writer) Write(c *Call) { _, _ = fmt.Fprintln(w.buffer, c) }

// Close ends the file. Its error may be that of any write.
func (w *Writer) Close() error {
	err := w.buffer.Flush()
	if w.zip != nil {
		err = errors.Join(err, w.zip.Close())
	}
	return errors.Join(err, w.file.Close())
}
