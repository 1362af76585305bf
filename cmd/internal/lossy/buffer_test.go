package lossy_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/cmd/internal/lossy"
)

// reader is a pipe's other end, which can stop reading or end.
type reader struct {
	reads chan struct{} // closed while it reads
	gone  bool
	got   bytes.Buffer
}

var errGone = errors.New("broken pipe")

func newReader() *reader {
	r := &reader{reads: make(chan struct{})}
	close(r.reads)
	return r
}

func (r *reader) stop()  { r.reads = make(chan struct{}) }
func (r *reader) start() { close(r.reads) }

func (r *reader) Write(lines []byte) (int, error) {
	<-r.reads
	if r.gone {
		return 0, errGone
	}
	return r.got.Write(lines)
}

// write writes a line, and fails the test if that blocks or fails.
func write(t *testing.T, w *lossy.Buffer, line string) {
	t.Helper()
	if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
		t.Fatalf("Write returns %d, %v", n, err)
	}
}

// TestInOrder: with a reader, each line arrives once and in order, and Close
// waits for it.
func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, want := newReader(), new(strings.Builder)
		w := lossy.New(r)
		for i := range 10_000 {
			line := fmt.Sprintln(i)
			want.WriteString(line)
			write(t, w, line)
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		w.Close(time.Second)
		if r.got.String() != want.String() || w.Dropped() != 0 {
			t.Errorf("%d bytes arrived of %d, %d lines dropped", r.got.Len(), want.Len(), w.Dropped())
		}
		write(t, w, "too late\n")
		if w.Dropped() != 1 {
			t.Errorf("after Close: %d lines dropped, want 1", w.Dropped())
		}
	})
}

// TestReaderStops: while nobody reads, a bounded number of lines waits, and
// others are dropped and counted. Once somebody reads again, all lines that
// waited arrive, and then the number of those that were dropped, once.
func TestReaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		w := lossy.New(r)
		w.Report(func(dropped int64) { fmt.Fprintf(w, "dropped %d\n", dropped) })
		r.stop()
		line := strings.Repeat("x", 1023) + "\n"
		write(t, w, line)
		synctest.Wait() // being written
		const kept = 1 + lossy.Capacity/1024
		for range kept - 1 + 7 {
			write(t, w, line)
		}
		if w.Dropped() != 7 {
			t.Errorf("%d lines dropped, want 7", w.Dropped())
		}
		r.start()
		synctest.Wait()
		write(t, w, "again\n")
		w.Close(time.Second)
		if got := r.got.String(); got != strings.Repeat(line, kept)+"dropped 7\nagain\n" {
			t.Errorf("%d bytes arrived, which end in %q", len(got), got[max(0, len(got)-60):])
		}
	})
}

// TestReaderEnds: once the reader has ended, lines are counted, and nothing
// reports them to nobody without end.
func TestReaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, reports := newReader(), 0
		w := lossy.New(r)
		w.Report(func(int64) { reports++; write(t, w, "dropped\n") })
		r.gone = true
		for range 3 {
			write(t, w, "one\ntwo\n")
			synctest.Wait()
		}
		w.Close(time.Second)
		if w.Dropped() != 6 || reports != 0 {
			t.Errorf("%d lines dropped and %d reports, want 6 and none", w.Dropped(), reports)
		}
	})
}

// TestCloseDoesNotWaitForEver: a reader that stopped does not hold up the end of
// the process.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		w := lossy.New(r)
		r.stop()
		write(t, w, "line\n")
		began := time.Now()
		w.Close(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v, want 1s", took)
		}
		r.start()
	})
}
