package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/snowflake"
)

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
		return nil, explain.Usage(fmt.Errorf("--worker-id %.40s: %w", f.WorkerID, err))
	}
	return &worker, nil
}

func parseWorkerID(text string, hostname func() (string, error)) (int64, error) {
	if text == ordinal {
		host, err := hostname()
		if err != nil {
			return 0, err
		}
		return ordinalOf(host)
	}
	worker, ok := parseDigits(text)
	if !ok {
		return 0, fmt.Errorf("want a number from 0 on, or %s", ordinal)
	}
	return worker, nil
}

// ordinalOf is the number after the last '-' of a host name without its domain.
func ordinalOf(host string) (int64, error) {
	name, _, _ := strings.Cut(host, ".")
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		if worker, ok := parseDigits(name[at+1:]); ok {
			return worker, nil
		}
	}
	return 0, fmt.Errorf("host name %.100q does not end in '-' and a number, as those of a StatefulSet do", host)
}

// parseDigits reads digits, and nothing that only looks like a number, such as +7.
func parseDigits(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}
