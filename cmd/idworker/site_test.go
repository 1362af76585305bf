package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// result is the result of a command.
type result struct {
	code           int
	stdout, stderr string
}

// site is an installation in this process, for commands.
type site struct {
	*testing.T
	nats *natstest.Node
	url  string
	stop func() // ends the serving process
}

// newSite serves on its own NATS server, and waits for a worker ID.
func newSite(t *testing.T, serve ...string) *site {
	t.Helper()
	ns := natstest.Start(t)
	s := &site{T: t, nats: ns, url: ns.URL()}
	s.serve(serve...)
	s.answered("get --snowflake")
	return s
}

// serve runs idworker serve until the test ends.
func (s *site) serve(args ...string) {
	s.Helper()
	s.stop = s.background(append([]string{"serve", "--log-level", "error", "--server", s.url}, args...)...)
}

// background runs a command until it is stopped, or the test ends.
func (s *site) background(args ...string) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var code int
	var out, err bytes.Buffer
	go func() {
		defer close(ended)
		code = run(ctx, args, &out, &err)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if <-ended; code != exitOK {
			s.Errorf("idworker %s ended with %d: %s", strings.Join(args, " "), code, err.String())
		}
	})
	s.Cleanup(stop)
	return stop
}

// run runs a command to its end.
func (s *site) run(args ...string) result {
	s.Helper()
	return command(s.T, args...)
}

// command runs a command to its end. It stops a command that serves although it
// should fail; the result then shows success.
func command(t *testing.T, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	// Without a deadline, which commands would respect.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(natstest.Patience, cancel).Stop()
	code := run(ctx, args, &out, &err)
	return result{code, out.String(), err.String()}
}

// at runs a command of the installation. Workers notice a new tag after a
// while.
func (s *site) at(line string, more ...string) result {
	s.Helper()
	return s.run(slices.Concat(strings.Fields(line), []string{"--server", s.url}, more)...)
}

// must runs a command of the installation that must succeed.
func (s *site) must(line string, more ...string) string {
	s.Helper()
	r := s.at(line, more...)
	if r.code != exitOK {
		s.Fatalf("idworker %s: %+v", line, r)
	}
	return r.stdout
}

// answered runs a command of the installation until it succeeds: workers notice
// a new tag, and claim a worker ID, after a while.
func (s *site) answered(line string, more ...string) (r result) {
	s.Helper()
	fails := 0
	natstest.Eventually(s, line+" is answered", func() bool {
		if r = s.at(line, more...); r.code != exitOK {
			if fails++; fails%100 == 1 {
				s.Logf("%s: %d %s", line, r.code, r.stderr)
			}
			// Leaves the processor to the serving process.
			time.Sleep(20 * time.Millisecond)
		}
		return r.code == exitOK
	})
	return r
}

// ids parses the output of get: an ascending ID per line.
func (s *site) ids(printed string) (list []int64) {
	s.Helper()
	for line := range strings.Lines(printed) {
		id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || len(list) > 0 && id <= list[len(list)-1] {
			s.Fatalf("line %q after %d IDs: %v", line, len(list), err)
		}
		list = append(list, id)
	}
	return list
}

// object parses the output of --json: a single JSON object.
func object(t *testing.T, text string) (found map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&found); err != nil || decoder.More() {
		t.Errorf("%q is not one JSON object: %v", text, err)
	}
	return found
}
