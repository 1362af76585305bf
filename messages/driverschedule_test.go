package messages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// followPace returns the targets of a new prefetcher after each step.
func followPace(_ *driver, _ context.Context, f struct {
	RunwayMS int64 `json:"runway_ms"`
	Limit    int64
	Steps    [][2]int64
}) (any, error) {
	var steps []messages.Step
	for _, s := range f.Steps {
		steps = append(steps, messages.Step{Passed: time.Duration(s[0]) * time.Millisecond, Taken: s[1]})
	}
	targets, err := messages.Targets(messages.PrefetchConfig{Runway: time.Duration(f.RunwayMS) * time.Millisecond, Limit: f.Limit}, steps)
	return map[string][]int64{"targets": targets}, err
}

// scheduleVariable makes this test binary run TestSchedule, with the events in
// the variable.
const scheduleVariable = "IDWORKER_CONFORMANCE_SCHEDULE"

// runSchedule runs TestSchedule in a process of its own: nats.go keeps timers,
// so those of virtual time would end up in other connections.
func runSchedule(_ *driver, ctx context.Context, f struct{ Events []string }) (any, error) {
	events, err := json.Marshal(f.Events)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSchedule$")
	cmd.Env = append(os.Environ(), driverVariable+"=", scheduleVariable+"="+string(events))
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %w\n%s", errDriver, err, out)
	}
	var waits [][2]float64
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&waits); err != nil { // the test's verdict follows
		return nil, fmt.Errorf("%w: %w\n%s", errDriver, err, out)
	}
	return map[string]any{"waits": waits}, nil
}

// TestSchedule prints the shortest and the longest waits of calls that meet the
// same events. The driver runs it.
func TestSchedule(t *testing.T) {
	var events []string
	if json.Unmarshal([]byte(os.Getenv(scheduleVariable)), &events) != nil {
		t.Skip("part of the driver of testing/conformance")
	}
	const calls = 100
	waits := make([][2]float64, len(events)-1)
	virtuallyAlone(t, func(t *testing.T, srv virtual) {
		s := startScheduled(t, srv)
		for call := range calls {
			met := s.meet(t, events)
			for i := range waits {
				wait := float64(met[i+1].Sub(met[i])) / float64(time.Millisecond)
				if call == 0 {
					waits[i] = [2]float64{wait, wait}
				}
				waits[i] = [2]float64{min(waits[i][0], wait), max(waits[i][1], wait)}
			}
		}
	})
	if t.Failed() {
		return
	}
	if err := json.NewEncoder(os.Stdout).Encode(waits); err != nil {
		t.Error(err)
	}
}

// scheduled is a client whose calls meet events, and whose connection can be
// lost.
type scheduled struct {
	virtual
	client   *messages.Client
	nc       *nats.Conn
	requests chan *nats.Msg
	lost     chan struct{} // the client has found the connection lost

	mu     sync.Mutex
	down   bool
	socket net.Conn
}

func startScheduled(t *testing.T, srv virtual) *scheduled {
	t.Helper()
	s := &scheduled{virtual: srv, requests: make(chan *nats.Msg, 1), lost: make(chan struct{}, 1)}
	if _, err := srv.Connect(t).Subscribe("ids.segment.order", func(request *nats.Msg) { s.requests <- request }); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the server has the subscription
	var err error
	s.nc, err = nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nc.Close)
	s.client = messages.NewObserved(s.nc, func(err error) {
		if errors.Is(err, nats.ErrDisconnected) {
			s.lost <- struct{}{}
		}
	})
	return s
}

// InProcessConn is part of [nats.InProcessConnProvider].
func (s *scheduled) InProcessConn() (socket net.Conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("the link is down")
	}
	s.socket, err = s.virtual.InProcessConn()
	return s.socket, err
}

// setLink loses the connection, or returns when it is back.
func (s *scheduled) setLink(down bool) {
	s.mu.Lock()
	if down && !s.down {
		_ = s.socket.Close() // of a pipe
	}
	s.down = down
	s.mu.Unlock()
	for s.nc.IsConnected() == down {
		time.Sleep(time.Millisecond)
	}
}

// meet makes a call, and returns when it met each event.
func (s *scheduled) meet(t *testing.T, events []string) (met []time.Time) {
	t.Helper()
	ended := make(chan error, 1)
	for i, event := range events {
		s.setLink(event == "disconnected")
		if i == 0 {
			go func() {
				_, err := s.client.NextN(t.Context(), "order", 1)
				ended <- err
			}()
		}
		var request *nats.Msg
		select {
		case request = <-s.requests:
		case <-s.lost:
		case err := <-ended:
			t.Fatalf("%v: the call ended before event %d: %v", events, i, err)
		}
		met = append(met, time.Now())
		if (request == nil) != (event == "disconnected") {
			t.Fatalf("%v: no event %d, %s", events, i, event)
		}
		reply, ok := map[string]*nats.Msg{
			"disconnected": nil, "silent": nil,
			"busy": message("", "429", "too many"), "unavailable": message("", "503", "no IDs"),
			"no_responders": {Header: nats.Header{"Status": {"503"}}}, "ids": message("7", "", ""),
		}[event]
		if !ok {
			t.Fatalf("no such event: %q", event)
		}
		if reply != nil {
			send(t, request, reply)
		}
		synctest.Wait() // the client has the reply
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return met
}
