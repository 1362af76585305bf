package natsconn

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// TestSilence: a server is frozen if nothing arrives for some ticks in a row. One that is
// merely slow is not, and neither is one whose bytes this process was too late to read.
func TestSilence(t *testing.T) {
	const onTime = silenceTick + silenceTick/2
	for name, test := range map[string]struct {
		bytes  []int64         // at each tick
		gaps   []time.Duration // before each tick; onTime if missing
		frozen int             // at which tick; 0 if never
	}{
		"nothing ever":              {[]int64{0, 0, 0, 0, 0}, nil, 4},
		"something, then nothing":   {[]int64{9, 9, 9, 9, 9, 9}, nil, 5},
		"one byte now and then":     {[]int64{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4}, nil, 0},
		"always something":          {[]int64{1, 2, 3, 4, 5, 6, 7, 8}, nil, 0},
		"paused itself":             {[]int64{1, 1, 1, 1, 1}, []time.Duration{0, 0, 0, 0, time.Minute}, 0},
		"paused, then still frozen": {[]int64{1, 1, 1, 1, 1, 1, 1, 1}, []time.Duration{0, 0, 0, time.Minute}, 8},
		"starved all the time":      {[]int64{1, 1, 1, 1, 1, 1, 1, 1}, []time.Duration{1: lateTick + 1, 2: lateTick + 1, 3: lateTick + 1, 4: lateTick + 1, 5: lateTick + 1, 6: lateTick + 1, 7: lateTick + 1}, 0},
	} {
		now := time.Now()
		s := silence{at: now}
		frozen := 0
		for i, read := range test.bytes {
			gap := onTime
			if i < len(test.gaps) && test.gaps[i] != 0 {
				gap = test.gaps[i]
			}
			now = now.Add(gap)
			if s.tick(now, read) {
				frozen = i + 1
				break
			}
		}
		if frozen != test.frozen {
			t.Errorf("%s: frozen at tick %d, want %d", name, frozen, test.frozen)
		}
	}
}

// TestFrozenConnectionIsClosed: a connection on which nothing arrives is closed within 3
// seconds, even while a write to it is stuck, but only if there is another server. Whoever
// answers keeps it.
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
					t.Errorf("%s: a write to nobody succeeded", name)
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
