package nemesis

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// setting is a variable of `make nemesis`, or a default.
func setting(name, usual string) string {
	if v := os.Getenv("NEMESIS_" + name); v != "" {
		return v
	}
	return usual
}

// TestNemesis is a run. `make nemesis` sets its variables.
func TestNemesis(t *testing.T) {
	if os.Getenv("NEMESIS_DURATION") == "" {
		t.Skip("`make nemesis` runs it")
	}
	duration, err := time.ParseDuration(os.Getenv("NEMESIS_DURATION"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(setting("SEED", strconv.FormatInt(time.Now().Unix(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	outage, err := time.ParseDuration(setting("OUTAGE", "0"))
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(setting("FAULTS", ""))
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	//nolint:usetesting // it stays if the run fails
	folder, err := os.MkdirTemp(setting("FOLDER", ""), fmt.Sprintf("nemesis-%d-", seed))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	say := func(format string, args ...any) {
		t.Logf(format, args...)
		_, _ = fmt.Fprintf(log, format+"\n", args...)
	}
	// A premature end still has to remove processes and disks.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &Run{
		Seed: seed, Store: setting("STORE", "jetstream"), Duration: duration, Outage: outage, T: t, Say: say,
		Only: only, Sync: setting("SYNC", "always"), Product: setting("PRODUCT", ""),
		work: work, folder: folder,
	}
	err = r.Execute(ctx)
	if err != nil {
		t.Error(err)
	}
	if r.checker == nil {
		return
	}
	result := r.Result()
	if err := os.WriteFile(filepath.Join(folder, "result.md"), []byte(result), 0o600); err != nil {
		t.Error(err)
	}
	fmt.Println(result) // without the place in this file before it: it is meant to be copied
	if n := len(r.checker.Violations()); n > 0 {
		t.Errorf("%d violations", n)
	}
	if t.Failed() {
		t.Logf("make nemesis SEED=%d DURATION=%v STORE=%s OUTAGE=%v SYNC=%s FAULTS='%v' PRODUCT=%s; schedule, history and logs are in %s",
			seed, duration, r.Store, outage, r.Sync, only, r.Product, folder)
		return
	}
	_ = os.RemoveAll(folder)
}

var recorded = flag.String("history", "", "file for TestHistory to check")

// TestHistory checks a recorded history alone.
func TestHistory(t *testing.T) {
	if *recorded == "" {
		t.Skip("no -history FILE")
	}
	f, err := os.Open(*recorded)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	c, err := CheckHistory(f)
	switch {
	case errors.Is(err, ErrBrokenOff):
		t.Log(err)
	case err != nil:
		t.Fatal(err)
	}
	for _, v := range c.Violations() {
		t.Error(v)
	}
	t.Log(c.Report())
}
