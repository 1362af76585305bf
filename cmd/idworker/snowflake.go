package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// snowflakeFlags configure snowflake IDs.
type snowflakeFlags struct {
	Layout     string        `help:"Layout: ${layouts}, or written out." default:"default"`
	Epoch      instant       `help:"Epoch (default: the layout's)." placeholder:"2025-01-01T00:00:00Z"`
	Datacenter int64         `help:"Datacenter number." default:"0"`
	WorkerID   string        `name:"worker-id" help:"Worker ID: a number or ordinal (default: any free ID)." placeholder:"N|ordinal"`
	LeaseTTL   time.Duration `help:"Lease time of worker IDs; below 15s frees none sooner." default:"30s"`
	MaxAhead   time.Duration `help:"Limit on running ahead of the clock." default:"1s"`

	MaxClockSkew time.Duration `help:"Allowed clock difference from server and workers." default:"5s"`
}

// instant is a flag with a time.
type instant time.Time

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("%.40q: expected a time such as 2025-01-01T00:00:00Z", text)
	}
	*i = instant(at)
	return nil
}

// layout returns the layout that the flags describe.
func (f snowflakeFlags) layout() (snowflake.Layout, error) {
	layout, err := snowflake.ParseLayout(f.Layout)
	if err != nil {
		return layout, problem.Usage(fmt.Errorf("--layout: %w", err))
	}
	if f.Epoch == (instant{}) {
		return layout, nil
	}
	spec := layout.Spec()
	spec.Epoch = time.Time(f.Epoch)
	if layout, err = snowflake.NewLayout(spec); err != nil {
		return layout, problem.Usage(fmt.Errorf("--epoch: %w", err))
	}
	return layout, nil
}

// lease returns the configuration of the worker ID's lease.
func (f snowflakeFlags) lease() (lease.Config, error) {
	layout, err := f.layout()
	if err != nil {
		return lease.Config{}, err
	}
	if f.MaxAhead < 0 || f.MaxClockSkew < 0 {
		return lease.Config{}, problem.Usage(errors.New("--max-ahead and --max-clock-skew must not be negative"))
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

// ordinal is the --worker-id for the number at the end of the host name.
const ordinal = "ordinal"

// workerID returns the worker ID of --worker-id, or nil.
func (f snowflakeFlags) workerID(layout snowflake.Layout) (*int64, error) {
	if f.WorkerID == "" {
		return nil, nil
	}
	worker, err := parseWorkerID(f.WorkerID, os.Hostname)
	if err == nil && worker > layout.MaxWorkerID() {
		err = fmt.Errorf("layout %s has worker IDs 0 to %d, not %d", layout, layout.MaxWorkerID(), worker)
	}
	if err != nil {
		return nil, problem.Usage(fmt.Errorf("--worker-id %.40s: %w", f.WorkerID, err))
	}
	return &worker, nil
}

// hostNumber matches the number after the last '-' of a host name, without its
// domain.
var hostNumber = regexp.MustCompile(`^[^.]*-(\d{1,18})(\.|$)`)

// parseWorkerID accepts digits only, not other forms of numbers such as +7.
func parseWorkerID(text string, hostname func() (string, error)) (int64, error) {
	if text == ordinal {
		host, err := hostname()
		if err != nil {
			return 0, err
		}
		found := hostNumber.FindStringSubmatch(host)
		if found == nil {
			return 0, fmt.Errorf("host name %.100q does not end in '-' and a number", host)
		}
		text = found[1]
	}
	worker, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("expected a number from 0 up, or %s", ordinal)
	}
	return int64(worker), nil
}
