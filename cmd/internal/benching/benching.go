// Package benching is the command idworker bench, but for how it connects: callers that ask for IDs, and
// what became of their requests.
package benching

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// Flags say how many ask, how often, and for how long.
type Flags struct {
	Callers  int           `help:"How many callers ask at the same time, each waiting for its answer: 1 to 10000." default:"16" env:"-"`
	Duration time.Duration `help:"How long they ask: 1ms to 24h." default:"10s" env:"-"`
	Rate     int           `help:"How many requests a second they make in all. Latency then counts from when a request was due. 0: as many as are answered." default:"0" placeholder:"N" env:"-"`
	Batch    int64         `help:"How many IDs each request is for." default:"1" env:"-"`
	Timeout  time.Duration `help:"How long a caller waits for IDs: 10ms to 1m." default:"5s" env:"-"`
	Remote   bool          `help:"Ask servers that are not on this machine, too: the load is real, and its IDs are used up." env:"-"`
	History  string        `help:"Record each request with its answer in this file, which must not exist; compressed if its name ends in .gz." type:"path" placeholder:"FILE" env:"-"`
}

// ErrBroken is the error of a run in which a promise was broken: an ID came twice, out of order, or the
// answer was none.
var ErrBroken = errors.New("a promise was broken")

const (
	maxCallers  = 10_000
	minDuration = time.Millisecond
	maxDuration = 24 * time.Hour
	minTimeout  = 10 * time.Millisecond
	maxTimeout  = time.Minute
)

// Check says which flags are out of bounds.
func (f Flags) Check() error {
	switch {
	case f.Callers < 1 || f.Callers > maxCallers:
		return problem.Usage(fmt.Errorf("--callers %d, allowed is 1 to %d", f.Callers, maxCallers))
	case f.Duration < minDuration || f.Duration > maxDuration:
		return problem.Usage(fmt.Errorf("--duration %v, allowed is %v to %v", f.Duration, minDuration, maxDuration))
	case f.Rate < 0:
		return problem.Usage(fmt.Errorf("--rate %d, allowed is 1 or more, or 0 for as many as are answered", f.Rate))
	case f.Batch < 1 || f.Batch > history.MaxCount:
		return problem.Usage(fmt.Errorf("--batch %d, allowed is 1 to %d, and what the workers allow", f.Batch, history.MaxCount))
	case f.Timeout < minTimeout || f.Timeout > maxTimeout:
		return problem.Usage(fmt.Errorf("--timeout %v, allowed is %v to %v", f.Timeout, minTimeout, maxTimeout))
	}
	return nil
}

// CheckServer refuses a server that is not on this machine, unless the flags allow it.
func (f Flags) CheckServer(conn *nats.Conn) error {
	address := conn.ConnectedAddr()
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); f.Remote || ip != nil && ip.IsLoopback() {
		return nil
	}
	return problem.Usage(fmt.Errorf("the server %s is not on this machine; the load is real, and its IDs are used up: if it is meant for that server, add --remote", address))
}

// Target is what callers ask for.
type Target struct {
	Tag    string // empty for snowflake IDs
	Strict bool   // the tag is
}

func (t Target) String() string {
	switch {
	case t.Tag == "":
		return "snowflake IDs"
	case t.Strict:
		return t.Tag + " (strict)"
	}
	return t.Tag
}

// Look finds out what there is to know about a tag. It uses up one of its IDs: a strict tag refuses
// requests for IDs that are kept for later.
func Look(ctx context.Context, client *messages.Client, tag string) (Target, error) {
	p, err := client.Prefetch(tag, messages.PrefetchConfig{Limit: 1, MaxBatch: 1})
	if err != nil {
		return Target{}, err
	}
	defer p.Close()
	_, err = p.Next(ctx)
	if errors.Is(err, messages.ErrStrict) {
		return Target{tag, true}, nil
	}
	return Target{tag, false}, err
}
