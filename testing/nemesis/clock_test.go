package nemesis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// TestClockIsSet: a program built with the overlay uses the time and the rate
// that the file gives.
func TestClockIsSet(t *testing.T) {
	dir := t.TempDir()
	overlay, err := ClockOverlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "main.go")
	text := `package main

import ("fmt"; "time")

func main() {
	for { fmt.Println(time.Now().Format(time.RFC3339Nano)); time.Sleep(20 * time.Millisecond) }
}`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := process.Build(dir, "tell", source, overlay)
	if err != nil {
		t.Fatal(err)
	}
	clock := ClockFile{filepath.Join(dir, "clock")}
	p, err := process.Program{Binary: binary, Env: []string{clock.Env()}}.Launch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	ahead := func() time.Duration {
		lines := strings.Split(p.Stdout.String(), "\n")
		if len(lines) < 2 {
			return 0
		}
		told, err := time.Parse(time.RFC3339Nano, lines[len(lines)-2])
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(told)
	}
	for _, offset := range []time.Duration{time.Hour + 700*ms, -time.Hour - 700*ms, 0} {
		if err := clock.Set(offset, 0); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the clock is "+offset.String()+" ahead", func() bool {
			return (ahead() - offset).Abs() < 200*ms
		})
	}
	if err := clock.Set(0, 1_000_000); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the clock has gained a second", func() bool { return ahead() > time.Second })
}
