package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// workersCmd lists the worker IDs of snowflake IDs.
type workersCmd struct {
	natsFlags  `embed:"" group:"nats"`
	printFlags `embed:""`
}

// Run prints a line for each worker ID that is or was leased.
func (c *workersCmd) Run(ctx context.Context, out output) error {
	return c.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		return c.list(ctx, js, out)
	})
}

func (c *workersCmd) list(ctx context.Context, js jetstream.JetStream, out output) error {
	holdings, layout, err := lease.List(ctx, js, c.Prefix, kv.ByConsumer)
	if holdings == nil && err != nil {
		return err
	}
	var lost lease.Lost
	if !layout.IsZero() {
		var lostErr error
		lost, lostErr = lease.Waits(ctx, js, c.Prefix, kv.ByConsumer)
		err = errors.Join(err, lostErr)
	}
	return errors.Join(out.Print(workerIDsAt(time.Now(), holdings, layout, lost)), err)
}

// workerIDsAt makes the list at a time.
func workerIDsAt(now time.Time, holdings []lease.Holding, layout snowflake.Layout, lost lease.Lost) leasedIDs {
	found := leasedIDs{Workers: []leasedID{}, Waits: health.WaitingText(now, layout, lost)}
	if !layout.IsZero() {
		found.Layout = layout.String()
	}
	for _, h := range holdings {
		one := leasedID{Datacenter: h.Datacenter, Worker: h.Worker, State: idFree, Host: h.Host, ReservedUntil: stamp(h.Reserved)}
		until := h.Reserved
		if end := lost.Of(layout, h.Worker); end.After(until) {
			until = end
		}
		switch {
		case h.Held():
			one.State, one.Instance, one.Since, one.ClockMs = idHeld, h.Instance, stamp(h.Since), new(h.ClockDiff.Milliseconds())
		case until.After(now):
			one.State, one.ReservedUntil = idReserved, stamp(until)
		}
		found.Workers = append(found.Workers, one)
	}
	return found
}

// leasedIDs lists the worker IDs that are or were leased.
type leasedIDs struct {
	// Missing until the first worker sets it.
	Layout string `json:"layout,omitempty"`
	// Which of them wait after a loss of the fences, if any.
	Waits   string     `json:"waits,omitempty"`
	Workers []leasedID `json:"workers"`
}

// idState is whether a worker ID can be claimed.
type idState string

const (
	idHeld     idState = "held"
	idReserved idState = "reserved" // not held, and no process may claim it yet
	idFree     idState = "free"
)

// leasedID is the state of a worker ID. Unknown fields are missing.
type leasedID struct {
	Datacenter int64   `json:"datacenter"`
	Worker     int64   `json:"worker"`
	State      idState `json:"state"`
	Instance   string  `json:"instance,omitempty"`
	Host       string  `json:"host,omitempty"`
	Since      string  `json:"since,omitempty"`
	// Ahead of the NATS server's.
	ClockMs       *int64 `json:"clock_ms,omitempty"`
	ReservedUntil string `json:"reserved_until,omitempty"`
}

// Text implements report.
func (l leasedIDs) Text(out io.Writer) error {
	if l.Layout == "" {
		_, err := fmt.Fprintln(out, "no layout yet; the first worker sets it")
		return err
	}
	fmt.Fprintf(out, "layout %s\n", l.Layout)
	if l.Waits != "" {
		fmt.Fprintf(out, "after a loss of the fences, %s\n", l.Waits)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DATACENTER\tWORKER\tSTATE\tHELD BY\tHOST\tSINCE\tCLOCK\tRESERVED UNTIL")
	for _, one := range l.Workers {
		clock := "-"
		if one.ClockMs != nil {
			clock = fmt.Sprintf("%+dms", *one.ClockMs)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", one.Datacenter, one.Worker, one.State, orDash(one.Instance), orDash(one.Host), orDash(one.Since), clock, orDash(one.ReservedUntil))
	}
	return w.Flush()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
