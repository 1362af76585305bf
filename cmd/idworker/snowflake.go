package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// snowflakeFlags say how snowflake IDs are made.
type snowflakeFlags struct {
	Layout     string        `help:"Layout of snowflake IDs: ${layouts}, or written out, as decode prints it." default:"default"`
	Epoch      time.Time     `help:"When time 0 was, if not what the layout says." placeholder:"2025-01-01T00:00:00Z"`
	Datacenter int64         `help:"Number of this datacenter in snowflake IDs." default:"0"`
	WorkerID   string        `name:"worker-id" help:"Worker ID of this process in snowflake IDs, instead of any that is free: a number; or ordinal, which is the number at the end of its host name, as a StatefulSet gives it. If another process that is alive holds it, this one ends." placeholder:"N|ordinal"`
	LeaseTTL   time.Duration `help:"How long after a process died its worker ID is free again, at least 15s." default:"30s"`
	MaxAhead   time.Duration `help:"How far snowflake IDs may run ahead of the clock." default:"1s"`

	MaxClockSkew time.Duration `help:"How far the clock may differ from the server's and from those of other workers." default:"5s"`
}

// layout is the layout that the flags describe.
func (f snowflakeFlags) layout() (snowflake.Layout, error) {
	layout, err := snowflake.ParseLayout(f.Layout)
	if err != nil {
		return layout, problem.Usage(fmt.Errorf("--layout: %w", err))
	}
	if f.Epoch.IsZero() {
		return layout, nil
	}
	spec := layout.Spec()
	spec.Epoch = f.Epoch
	if layout, err = snowflake.NewLayout(spec); err != nil {
		return layout, problem.Usage(fmt.Errorf("--epoch: %w", err))
	}
	return layout, nil
}

// lease is the configuration of the worker ID's lease, as far as flags determine it.
func (f snowflakeFlags) lease() (lease.Config, error) {
	layout, err := f.layout()
	if err != nil {
		return lease.Config{}, err
	}
	worker, err := f.workerID(layout)
	return lease.Config{
		Layout:       layout,
		Datacenter:   f.Datacenter,
		Worker:       worker,
		TTL:          f.LeaseTTL,
		MaxAhead:     f.MaxAhead,
		MaxClockSkew: f.MaxClockSkew,
	}, err
}

// ordinal is the --worker-id that the host name says.
const ordinal = "ordinal"

// workerID is the worker ID that --worker-id gives, nil if it gives none.
func (f snowflakeFlags) workerID(layout snowflake.Layout) (*int64, error) {
	if f.WorkerID == "" {
		return nil, nil
	}
	worker, err := parseWorkerID(f.WorkerID, os.Hostname)
	if err == nil && worker > layout.MaxWorkerID() {
		err = fmt.Errorf("layout %s has the worker IDs 0 to %d, and not %d", layout, layout.MaxWorkerID(), worker)
	}
	if err != nil {
		return nil, problem.Usage(fmt.Errorf("--worker-id %.40s: %w", f.WorkerID, err))
	}
	return &worker, nil
}

// hostNumber finds the number after the last '-' of a host name without its domain.
var hostNumber = regexp.MustCompile(`^[^.]*-(\d{1,18})(\.|$)`)

// parseWorkerID reads digits, and nothing that only looks like a number, such as +7.
func parseWorkerID(text string, hostname func() (string, error)) (int64, error) {
	if text == ordinal {
		host, err := hostname()
		if err != nil {
			return 0, err
		}
		found := hostNumber.FindStringSubmatch(host)
		if found == nil {
			return 0, fmt.Errorf("host name %.100q does not end in '-' and a number, as those of a StatefulSet do", host)
		}
		text = found[1]
	}
	worker, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("want a number from 0 on, or %s", ordinal)
	}
	return int64(worker), nil
}
