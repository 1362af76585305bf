package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// op is an operation, without its id: op{"op": "next", "client": "a", …}.
type op map[string]any

// result is a driver's answer: the fields of its ok, or its error.
type result struct {
	Ranges []string `json:"ranges"`

	// Of many and take.
	Errors   map[string]int64 `json:"errors"` // by kind
	Descents int64            `json:"descents"`

	// Of buffer.
	Buffered int64 `json:"buffered"`
	InFlight int64 `json:"in_flight"`
	Target   int64 `json:"target"`
	Batch    int64 `json:"batch"`

	// Of operations without a server.
	Targets []int64      `json:"targets"`
	Waits   [][2]float64 `json:"waits"` // the shortest and the longest, in ms

	// Of hello.
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Features []string `json:"features"`

	err *failure // nil if there was an ok
}

// failure is the error of a driver's answer.
type failure struct {
	Kind      string `json:"kind"`
	Code      int    `json:"code"`
	Text      string `json:"text"`
	Reason    string `json:"reason"`
	Tries     int64  `json:"tries"`
	Retryable bool   `json:"retryable"`
}

// kind is the kind of the result's error, or empty.
func (r result) kind() string {
	if r.err == nil {
		return ""
	}
	return r.err.Kind
}

// String describes a result in a test's message.
func (r result) String() string {
	if r.err != nil {
		return fmt.Sprintf("%+v", *r.err)
	}
	return fmt.Sprintf("ranges %.200q, errors %v", r.Ranges, r.Errors)
}

// driver is a running driver program. Its methods may be called from any
// goroutine.
type driver struct {
	client client
	cmd    *exec.Cmd
	stderr logged
	ended  chan struct{} // closed when stdout has ended

	// A driver may stop reading until its own lines are read, so writing has
	// another lock.
	writing sync.Mutex
	in      io.WriteCloser

	mu      sync.Mutex
	last    int                 // the id of the latest operation
	names   int                 // given by newName
	waiting map[int]chan result // by id
	fault   error               // what the driver did against the protocol
}

// pending is an operation under way.
type pending struct {
	d    *driver
	id   int
	op   op
	done chan result
}

// startDriver starts a client's driver. It ends with the test: at EOF, with
// code 0.
func startDriver(t testing.TB, c client) *driver {
	t.Helper()
	d := &driver{client: c, cmd: c.start(t), ended: make(chan struct{}), waiting: make(map[int]chan result)}
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.in, d.cmd.Stderr = in, &d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("start the driver of %s: %v", c.name, err)
	}
	go d.read(out)
	t.Cleanup(func() { d.end(t) })
	return d
}

// another starts a process of the same client, for operations that change the
// whole process. It ends with the test.
func (d *driver) another(t testing.TB) *driver { return startDriver(t, d.client) }

// read hands the driver's answers to those who wait for them.
func (d *driver) read(out io.Reader) {
	defer close(d.ended)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			d.answer(line)
		}
		if err != nil {
			return
		}
	}
}

func (d *driver) answer(line []byte) {
	var answer struct {
		ID    int      `json:"id"`
		OK    *result  `json:"ok"`
		Error *failure `json:"error"`
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&answer)
	if err == nil && (answer.OK == nil) == (answer.Error == nil) {
		err = errors.New("want ok or error")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	done := d.waiting[answer.ID]
	delete(d.waiting, answer.ID)
	if err == nil && done == nil {
		err = errors.New("no operation has that id, or it was answered before")
	}
	if err != nil {
		d.fault = fmt.Errorf("line %.200q: %w", line, err)
		answer.Error = &failure{Kind: "driver", Text: d.fault.Error()}
	}
	switch {
	case done == nil:
	case answer.Error != nil:
		done <- result{err: answer.Error}
	default:
		done <- *answer.OK
	}
}

// begin starts an operation.
func (d *driver) begin(t testing.TB, o op) *pending {
	t.Helper()
	p := &pending{d: d, op: o, done: make(chan result, 1)}
	d.mu.Lock()
	d.last++
	p.id = d.last
	d.waiting[p.id] = p.done
	d.mu.Unlock()
	data, err := json.Marshal(o.with("id", p.id))
	if err != nil {
		t.Fatalf("%v: %v", o, err)
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if _, err := d.in.Write(append(data, '\n')); err != nil {
		t.Fatalf("%v: the driver has ended: %v\n%s", o, err, d.stderr.String())
	}
	return p
}

// wait returns the operation's result. It fails the test if there is none.
func (p *pending) wait(t testing.TB) result {
	t.Helper()
	patience := time.NewTimer(natstest.Patience)
	defer patience.Stop()
	select {
	case r := <-p.done:
		return r
	case <-p.d.ended:
		select {
		case r := <-p.done:
			return r
		default:
		}
		t.Fatalf("%v: the driver ended: %s", p.op, p.d.stderr.String())
	case <-patience.C:
		t.Fatalf("%v: no answer after %v: %s", p.op, natstest.Patience, p.d.stderr.String())
	}
	return result{}
}

// has reports whether the driver has a feature.
func (d *driver) has(t testing.TB, feature string) bool {
	t.Helper()
	return slices.Contains(d.must(t, op{"op": "hello"}).Features, feature)
}

// newName returns a name that no other client or prefetcher of the driver has.
func (d *driver) newName() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names++
	return fmt.Sprint("c", d.names)
}

// isDone reports whether the operation has its result.
func (p *pending) isDone() bool { return len(p.done) > 0 }

// do performs an operation.
func (d *driver) do(t testing.TB, o op) result {
	t.Helper()
	return d.begin(t, o).wait(t)
}

// must performs an operation that must succeed.
func (d *driver) must(t testing.TB, o op) result {
	t.Helper()
	r := d.do(t, o)
	if r.err != nil {
		t.Fatalf("%v: %v", o, r)
	}
	return r
}

// end closes stdin, and checks how the driver ends.
func (d *driver) end(t testing.TB) {
	t.Helper()
	_ = d.in.Close() // fails if the driver has ended, which Wait reports
	kill := time.AfterFunc(natstest.Patience, func() { _ = d.cmd.Process.Kill() })
	defer kill.Stop()
	<-d.ended
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the driver of %s, at EOF: %v; want code 0", d.client.name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault != nil {
		t.Errorf("the driver of %s: %v", d.client.name, d.fault)
	}
	if t.Failed() {
		t.Logf("stderr of the driver of %s:\n%s", d.client.name, d.stderr.String())
	}
}

// logged keeps what the driver logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
