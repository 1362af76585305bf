package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// stuck is a pipe that is full, and whose reader has stopped.
type stuck struct{ read chan struct{} }

func (s stuck) Write(lines []byte) (int, error) {
	<-s.read
	return len(lines), nil
}

// TestOutputThatNobodyReads: with readers of stdout and stderr that have
// stopped, a process starts, prints its demo, answers requests, refuses those of
// unknown tags, and stops.
func TestOutputThatNobodyReads(t *testing.T) {
	pipe := stuck{make(chan struct{})}
	defer close(pipe.read)
	address := freeport.Address(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"serve", "--demo", "--listen", address, "--data", t.TempDir(),
			"--http", freeport.Address(t), "--api", freeport.Address(t), "--log-level", "debug",
		}, pipe, pipe)
	}()
	s := &site{T: t, url: "nats://" + address}
	s.answered("get order")
	for range 20 {
		if r := s.at("get nosuch"); r.code != exitNoTag {
			t.Fatalf("get of an unknown tag: %+v", r)
		}
	}
	s.must("tag create new")
	s.answered("get new")
	s.must("get order")
	s.answered("get --snowflake")
	stop()
	natstest.Eventually(t, "the process stops", func() bool { return len(ended) == 1 })
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestLogFormat: with --log-format json, each line is an object, also the error
// that ends the process.
func TestLogFormat(t *testing.T) {
	address := freeport.Address(t)
	r := command(t, "serve", "--server", "nats://"+address, "--log-format", "json", "--store", "nosuch://")
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	var last struct {
		Level, Msg, Error string
		ExitCode          int `json:"exit_code"`
	}
	for _, line := range lines {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Errorf("line %s: %v", line, err)
		}
	}
	if last.Level != "error" || last.Error == "" || last.ExitCode != exitUsage || r.code != exitUsage {
		t.Errorf("exit code %d, last line %+v", r.code, last)
	}
	if r := command(t, "serve", "--log-format", "xml"); r.code != exitUsage || !strings.Contains(r.stderr, "console") {
		t.Errorf("an unknown format: %+v", r)
	}
}
