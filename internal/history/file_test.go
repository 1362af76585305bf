package history

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

func answer(kind Kind, tag string, sent, received time.Duration, ranges ...messages.Range) *Call {
	c := &Call{Kind: kind, Tag: tag, Sent: sent, Received: received, Ranges: ranges}
	for _, r := range ranges {
		c.Count += r.Len()
	}
	return c
}

func ids(first, last int64) messages.Range { return messages.Range{First: first, Last: last} }

// TestHistoryIsReadAsItWasWritten: compressed or not, with a layout and without.
func TestHistoryIsReadAsItWasWritten(t *testing.T) {
	calls := []*Call{
		answer(Strict, "doc.a", 5, 7, ids(1, 3), ids(9, 9)), answer(Snowflake, "", 6, 8, ids(1<<40, 1<<40)),
		{Kind: Single, Tag: "order", Sent: 1, Received: 9, Count: 1, Err: "no ID\nbefore the deadline"}, answer(Batch, "-", 9, 11, ids(2, 7)),
		answer(HTTP, "order", 10, 12, ids(9, 9)), answer(HTTPStrict, "doc.a", 10, 13, ids(10, 11)),
	}
	for name, layout := range map[string]snowflake.Layout{"history": snowflake.Sonyflake(), "history.gz": {}} {
		t.Run(name, func(t *testing.T) {
			read, back := written(t, name, layout, calls)
			if back != layout {
				t.Errorf("layout %v, written was %v", back, layout)
			}
			if len(read) != len(calls) {
				t.Fatalf("%d calls read, %d written", len(read), len(calls))
			}
			for i, c := range calls {
				if read[i].String() != c.String() || read[i].Tag != c.Tag {
					t.Errorf("read %q, written was %q", read[i], c)
				}
			}
		})
	}
}

// written writes calls to a file and reads them back.
func written(t *testing.T, name string, layout snowflake.Layout, calls []*Call) (read []*Call, back snowflake.Layout) {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	w, err := Create(name, layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		w.Write(c)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(name, layout); !errors.Is(err, os.ErrExist) {
		t.Errorf("created again: %v, want %v", err, os.ErrExist)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := r.Next()
		if errors.Is(err, io.EOF) {
			return read, r.Layout()
		}
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, c)
	}
}
