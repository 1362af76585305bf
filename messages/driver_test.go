package messages_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// This is the driver of testing/conformance for Go. That package specifies the
// operations. The driver is this test binary, since it needs the clocks, the
// buffers and the schedule, which callers cannot reach.

// driverVariable makes this test binary run as the driver.
const driverVariable = "IDWORKER_CONFORMANCE_DRIVER"

// driver performs operations.
type driver struct {
	wall atomic.Int64 // how far the wall clock is ahead of the machine's, in ns

	mu          sync.Mutex
	out         *json.Encoder
	underWay    map[int64]context.CancelFunc // operations by id
	clients     map[string]*driven
	prefetchers map[string]*messages.Prefetcher
}

// runDriver performs the operations of a reader until its end. It returns the
// exit code.
func runDriver(in io.Reader, out io.Writer) int {
	d := &driver{
		out: json.NewEncoder(out), underWay: make(map[int64]context.CancelFunc),
		clients: make(map[string]*driven), prefetchers: make(map[string]*messages.Prefetcher),
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			d.begin(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return 0
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// begin starts an operation, which is answered when it has ended.
func (d *driver) begin(line []byte) {
	var request struct {
		ID          int64
		Op          string
		Traceparent string
	}
	err := json.Unmarshal(line, &request)
	perform := operations[request.Op]
	if err == nil && perform == nil {
		err = fmt.Errorf("%w: unknown operation %.40q", errDriver, request.Op)
	}
	ctx, cancel := context.WithCancel(traced(context.Background(), request.Traceparent))
	d.mu.Lock()
	d.underWay[request.ID] = cancel
	d.mu.Unlock()
	go func() {
		defer cancel()
		var result any
		if err == nil {
			result, err = perform(d, ctx, line)
		}
		d.answer(request.ID, result, err)
	}()
}

func (d *driver) answer(id int64, result any, err error) {
	answer := struct {
		ID    int64    `json:"id"`
		OK    any      `json:"ok,omitempty"`
		Error *failure `json:"error,omitempty"`
	}{ID: id, OK: result}
	if err != nil {
		answer.OK, answer.Error = nil, describe(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.underWay, id)
	if err := d.out.Encode(answer); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// operation reads the fields of an operation, and performs it.
type operation func(d *driver, ctx context.Context, line []byte) (any, error)

// operationOf returns an operation with the fields F.
func operationOf[F any](perform func(d *driver, ctx context.Context, f F) (any, error)) operation {
	return func(d *driver, ctx context.Context, line []byte) (any, error) {
		var fields map[string]json.RawMessage
		var f F
		err := json.Unmarshal(line, &fields)
		if err == nil {
			delete(fields, "id")
			delete(fields, "op")
			delete(fields, "traceparent")
			line, err = json.Marshal(fields)
		}
		if err == nil {
			decoder := json.NewDecoder(bytes.NewReader(line))
			decoder.DisallowUnknownFields()
			err = decoder.Decode(&f)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDriver, err)
		}
		return perform(d, ctx, f)
	}
}

// none is the fields of an operation without fields, and the result of one
// without results.
type none struct{}

// operations are all operations. They lack those of missing features.
var operations = map[string]operation{
	"hello":            operationOf(hello),
	"connect":          operationOf(connect),
	"close":            operationOf(closeConnection), // a client itself is not closed
	"close_connection": operationOf(closeConnection),
	"drain":            operationOf(drain),
	"kill_link":        operationOf(killLink),
	"next":             operationOf(next),
	"next_n":           operationOf(nextN),
	"snowflake":        operationOf(oneSnowflake),
	"snowflake_n":      operationOf(snowflakeN),
	"many":             operationOf(many),
	"cancel":           operationOf(cancelOperation),
	"prefetch":         operationOf(newPrefetcher),
	"take":             operationOf(take),
	"buffer":           operationOf(showBuffer),
	"close_prefetch":   operationOf(closePrefetcher),
	"wall":             operationOf(moveWall),
	"pace":             operationOf(followPace),
	"schedule":         operationOf(runSchedule),
}

func hello(*driver, context.Context, none) (any, error) {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	return map[string]any{
		"language": "Go", "version": version + " " + runtime.Version(),
		"features": []string{"threads", "sync", "cancel", "borrow", "coalescing", "statuses", "headerless"},
	}, nil
}

// cancelOperation cancels an operation, unless it has ended.
func cancelOperation(d *driver, _ context.Context, f struct{ Call int64 }) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.underWay[f.Call]; cancel != nil {
		cancel()
	}
	return none{}, nil
}

// failure is how an error is answered.
type failure struct {
	Kind      string        `json:"kind"`
	Code      messages.Code `json:"code,omitempty"`
	Text      string        `json:"text"`
	Reason    string        `json:"reason,omitempty"`
	Tries     int64         `json:"tries,omitempty"`
	Retryable bool          `json:"retryable"`
}

var (
	errDriver  = errors.New("driver")         // the driver does not understand an operation
	errConnect = errors.New("cannot connect") // in connect
)

// outerKinds are the kinds of errors that have a reason, and of errors that are
// the driver's or of prefetchers and connections. The kinds of vectors.json
// follow, which are the reasons, too.
var (
	outerKinds = []kindOfError{
		{"driver", errDriver},
		{"timeout", context.DeadlineExceeded}, {"cancelled", context.Canceled},
		{"config", messages.ErrPrefetch}, {"closed", messages.ErrClosed}, {"denied", nats.ErrPermissionViolation},
		{"connection", errConnect}, {"connection", nats.ErrConnectionClosed}, {"connection", nats.ErrConnectionDraining},
	}
	reasons = []kindOfError{
		{"busy", messages.ErrBusy}, {"unavailable", messages.ErrUnavailable}, {"no_responders", nats.ErrNoResponders},
		{"no_reply", nats.ErrTimeout}, {"disconnected", nats.ErrDisconnected}, {"disconnected", nats.ErrConnectionReconnecting},
	}
)

type kindOfError struct {
	kind string
	err  error
}

// findKind returns the first kind that an error is of, or "".
func findKind(all []kindOfError, err error) string {
	i := slices.IndexFunc(all, func(k kindOfError) bool { return errors.Is(err, k.err) })
	if i < 0 {
		return ""
	}
	return all[i].kind
}

var triesInText = regexp.MustCompile(`after (\d+) tries`)

// describe returns the answer for an error.
func describe(err error) *failure {
	f := &failure{Kind: findKind(outerKinds, err), Text: err.Error()}
	reply, isReply := errors.AsType[*messages.Error](err)
	if isReply {
		f.Code = reply.Code
	}
	if found := triesInText.FindStringSubmatch(f.Text); found != nil {
		f.Tries, _ = strconv.ParseInt(found[1], 10, 64) // digits
	}
	switch f.Kind {
	case "timeout", "cancelled":
		f.Reason = findKind(reasons, err)
		if _, ok := errors.AsType[*net.OpError](err); ok { // in the middle of a write
			f.Reason = "disconnected"
		}
	case "":
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if errors.Is(err, kinds[kind]) {
				f.Kind = kind
			}
		}
		if f.Kind == "" && isReply {
			f.Kind = "code"
		}
		f.Kind = cmp.Or(f.Kind, "driver")
	}
	f.Retryable = slices.Contains([]string{"timeout", "busy", "unavailable", "no_responders"}, f.Kind)
	return f
}
