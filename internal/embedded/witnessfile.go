package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/idworker/idworker/messages"
)

// revisions holds the highest revision at which each key was seen.
type revisions map[string]uint64

// witnessFile is a file of lines "revision key", of which the latest line of a key
// counts. A line is written a moment after the server has acknowledged, and not synced:
// a file that lacks a line shows less damage, but never raises a false alarm, because
// the server synced what it acknowledged.
type witnessFile struct {
	path  string
	known revisions
	file  *os.File // nil until rewrite has written what there was before
	lines int
}

func newWitnessFile(path string) *witnessFile {
	return &witnessFile{path: path, known: make(revisions)}
}

// readWitnessFile reads what was seen.
func readWitnessFile(path string) (revisions, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := make(revisions)
	end := bytes.LastIndexByte(data, '\n') + 1 // what follows was cut off by a crash
	for line := range strings.Lines(string(data[:end])) {
		number, key, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		revision, err := strconv.ParseUint(number, 10, 64)
		if ok && err == nil && messages.CheckTag(key) == nil {
			r[key] = max(r[key], revision)
		} // else a power cut left a hole here
	}
	return r, nil
}

// add adds an entry; to the file too, once that holds what there was before.
func (w *witnessFile) add(key string, revision uint64) error {
	w.known[key] = revision
	if w.file == nil {
		return nil
	}
	if w.lines++; w.lines > maxLines(len(w.known)) {
		return w.rewrite()
	}
	_, err := fmt.Fprintf(w.file, "%d %s\n", revision, key)
	return err
}

// maxLines is how many lines a file may have until it is rewritten.
func maxLines(keys int) int { return 10_000 + 4*keys }

// rewrite replaces the file by one line a key. The new file is renamed into place, so
// that a crash leaves the old one or the new one.
func (w *witnessFile) rewrite() error {
	file, err := os.OpenFile(w.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	buf := bufio.NewWriter(file)
	for _, key := range slices.Sorted(maps.Keys(w.known)) {
		fmt.Fprintf(buf, "%d %s\n", w.known[key], key)
	}
	err = errors.Join(buf.Flush(), file.Sync())
	if err == nil {
		err = os.Rename(w.path+".new", w.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	err = w.close()
	w.file, w.lines = file, len(w.known)
	return err
}

func (w *witnessFile) close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
