package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/idworker/idworker/snowflake"
)

func TestParseWorkerID(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, host string
		want       int64 // -1: rejected
	}{
		{"0", "", 0},
		{"1023", "", 1023},
		{"-1", "", -1},
		{"+1", "", -1},
		{"1e3", "", -1},
		{"0x10", "", -1},
		{"9223372036854775808", "", -1},
		{"Ordinal", "idworker-1", -1},
		{"ordinal", "idworker-0", 0},
		{"ordinal", "ids-worker-17", 17},
		{"ordinal", "idworker-5.ids.default.svc.cluster.local", 5},
		{"ordinal", "worker-007", 7},
		{"ordinal", "worker7", -1},
		{"ordinal", "7", -1},
		{"ordinal", "worker-", -1},
		{"ordinal", "worker-x7", -1},
		{"ordinal", "worker-7x", -1},
		{"ordinal", "worker-+7", -1},
		// The number is in its domain.
		{"ordinal", "worker.zone-7", -1},
		{"ordinal", "idworker-6d4cf56db6-8kq2x", -1}, // of a Deployment
		{"ordinal", "", -1},
	} {
		got, err := parseWorkerID(tc.text, func() (string, error) { return tc.host, nil })
		if (err == nil) != (tc.want >= 0) || err == nil && got != tc.want {
			t.Errorf("%q on %q: %d, %v", tc.text, tc.host, got, err)
		}
	}
	broken := errors.New("no host name")
	if _, err := parseWorkerID("ordinal", func() (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestWorkerIDWithinTheLayout: a worker ID outside the layout is an error of
// the command line, before any connection.
func TestWorkerIDWithinTheLayout(t *testing.T) {
	t.Parallel()
	for text, highest := range map[string]string{"default": "1023", "js": "127", "twitter": "31"} {
		f := snowflakeFlags{Layout: text, WorkerID: highest}
		cfg, err := f.lease()
		if err != nil || cfg.Worker == nil || *cfg.Worker != cfg.Layout.MaxWorkerID() {
			t.Errorf("%s: %v, %v", text, cfg.Worker, err)
		}
		f.WorkerID += "0"
		if _, err := f.lease(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "0 to "+highest) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if cfg, err := (snowflakeFlags{Layout: "default"}).lease(); err != nil || cfg.Worker != nil || cfg.Layout != snowflake.Default() {
		t.Errorf("without one: %v, %v", cfg.Worker, err)
	}
}
