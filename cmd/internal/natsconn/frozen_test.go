package natsconn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// scriptedConn is a connection with a script: bytes arrive within a tick, or
// not.
type scriptedConn struct {
	net.Conn
	arrives []bool
	gaps    []time.Duration // duration of each tick
	ticks   int
	closed  bool
}

func (c *scriptedConn) SetReadDeadline(time.Time) error { return nil }

func (c *scriptedConn) Read([]byte) (int, error) {
	if c.ticks == len(c.arrives) {
		return 0, io.EOF
	}
	gap := silenceTick + silenceTick/2
	if c.ticks < len(c.gaps) && c.gaps[c.ticks] != 0 {
		gap = c.gaps[c.ticks]
	}
	time.Sleep(gap)
	c.ticks++
	if !c.arrives[c.ticks-1] {
		return 0, os.ErrDeadlineExceeded
	}
	return 1, nil
}

func (c *scriptedConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (c *scriptedConn) Close() error {
	c.closed = true
	return nil
}

// TestSilence: a server is frozen if nothing arrives for some ticks in a row. A
// slow server is not frozen, nor is a server whose bytes this process read
// late.
func TestSilence(t *testing.T) {
	const late = lateTick + 1
	for name, test := range map[string]struct {
		arrives string          // a dot for nothing, at each tick
		gaps    []time.Duration // of each tick; on time if missing
		frozen  int             // the tick; 0: never
	}{
		"nothing ever":              {".....", nil, 4},
		"something, then nothing":   {"x.....", nil, 5},
		"one byte now and then":     {"x...x...x...x", nil, 0},
		"always something":          {"xxxxxxxx", nil, 0},
		"paused itself":             {"x....", []time.Duration{4: time.Minute}, 0},
		"paused, then still frozen": {"x.......", []time.Duration{3: time.Minute}, 8},
		"starved all the time":      {"x.......", []time.Duration{1: late, 2: late, 3: late, 4: late, 5: late, 6: late, 7: late}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			script := &scriptedConn{gaps: test.gaps}
			for _, c := range test.arrives {
				script.arrives = append(script.arrives, c == 'x')
			}
			d := &watchedDialer{name: "test", log: zap.NewNop()}
			d.others.Store(true)
			_, err := io.Copy(io.Discard, d.watch(script))
			frozen := 0
			if script.closed {
				frozen = script.ticks
			}
			if frozen != test.frozen || errors.Is(err, errFrozen) != script.closed {
				t.Errorf("%s: frozen at tick %d, want %d; %v", name, frozen, test.frozen, err)
			}
		})
	}
}

// TestConnectingIsNotWatched: a deadline of nats.go takes precedence.
func TestConnectingIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer func() { _ = server.Close() }()
		d := &watchedDialer{name: "test", log: zap.NewNop()}
		conn := d.watch(client)
		defer func() { _ = conn.Close() }()
		began := time.Now()
		_ = conn.SetDeadline(began.Add(nats.DefaultTimeout))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != nats.DefaultTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestFrozenConnectionIsClosed: a silent connection is closed within 3 seconds,
// even during a blocked write, but only if there is another server. A
// connection to a server that answers stays.
func TestFrozenConnectionIsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		others, answers, closed bool
	}{
		"frozen, one of several": {true, false, true},
		"frozen, the only one":   {false, false, false},
		"answering":              {true, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			d := &watchedDialer{name: "test", log: zap.NewNop()}
			d.others.Store(test.others)
			conn := d.watch(client)
			go func() {
				for test.answers {
					if _, err := server.Write([]byte("PONG\r\n")); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			stuck := make(chan error, 1)
			go func() { _, err := conn.Write([]byte("PING\r\n")); stuck <- err }()
			began := time.Now()
			select {
			case err := <-stuck:
				if err == nil {
					t.Errorf("%s: a write without a reader succeeded", name)
				}
				if !test.closed || time.Since(began) > 3*time.Second {
					t.Errorf("%s: closed after %v", name, time.Since(began))
				}
			case <-time.After(time.Minute):
				if test.closed {
					t.Errorf("%s: not closed within a minute", name)
				}
			}
			_ = conn.Close()
			_ = server.Close()
			time.Sleep(2 * time.Second) // until all have noticed
		})
	}
}
