package witness

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/folder"
	"github.com/idworker/idworker/messages"
)

// fileSuffix follows the name of the bucket in the name of its file.
const fileSuffix = ".witness"

// createdWord begins the line that says when the bucket's stream was created.
const createdWord = "created"

// file is the file of a record: lines "revision count key", with "-" for the count of what is
// no counter, of which the latest line of a key counts. Versions that did not note counts wrote
// "revision key".
//
// A line is written a moment after the server has acknowledged, and not synced: a file that
// lacks a line shows less, but never raises a false alarm, because the server synced what it
// acknowledged.
type file struct {
	folder *folder.Folder
	name   string
	file   *os.File // nil until rewrite has written what there was before
	lines  int
}

// readFile reads what was seen.
func readFile(path string) (*record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := newRecord()
	end := bytes.LastIndexByte(data, '\n') + 1 // what follows was cut off by a crash
	for line := range strings.Lines(string(data[:end])) {
		r.readLine(strings.Split(strings.TrimSuffix(line, "\n"), " "))
	}
	return r, nil
}

// readLine reads a line, unless a power cut left a hole there.
func (r *record) readLine(fields []string) {
	if len(fields) == 2 && fields[0] == createdWord {
		if created, err := time.Parse(time.RFC3339Nano, fields[1]); err == nil {
			r.created = created
		}
		return
	}
	var m mark
	var err error
	switch {
	case len(fields) == 3 && fields[1] != "-":
		if m.count, err = strconv.ParseInt(fields[1], 10, 64); err != nil || m.count < 1 {
			return
		}
	case len(fields) != 2 && len(fields) != 3:
		return
	}
	key := fields[len(fields)-1]
	if m.revision, err = strconv.ParseUint(fields[0], 10, 64); err == nil && messages.CheckTag(key) == nil {
		r.marks[key] = m
	}
}

func line(key string, m mark) string {
	count := "-"
	if m.count > 0 {
		count = strconv.FormatInt(m.count, 10)
	}
	return fmt.Sprintf("%d %s %s\n", m.revision, count, key)
}

// add adds what was just noted, once the file holds what there was before.
func (f *file) add(key string, r *record) error {
	if f.file == nil {
		return nil
	}
	if f.lines++; f.lines > maxLines(len(r.marks)) {
		return f.rewrite(r)
	}
	_, err := f.file.WriteString(line(key, r.marks[key]))
	return err
}

// maxLines is how many lines a file may have until it is rewritten.
func maxLines(keys int) int { return 10_000 + 4*keys }

// rewrite replaces the file by one line a key.
func (f *file) rewrite(r *record) error {
	written, err := f.folder.Replace(f.name, func(to *os.File) error {
		buf := bufio.NewWriter(to)
		if !r.created.IsZero() {
			fmt.Fprintf(buf, "%s %s\n", createdWord, r.created.UTC().Format(time.RFC3339Nano))
		}
		for _, key := range slices.Sorted(maps.Keys(r.marks)) {
			_, _ = buf.WriteString(line(key, r.marks[key])) // Flush tells
		}
		return buf.Flush()
	})
	if err != nil {
		return err
	}
	err = f.close()
	f.file, f.lines = written, len(r.marks)
	return err
}

func (f *file) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
