package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// screen shows both outputs, as a terminal does.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

// take returns the output since the last call.
func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// If a command prints nothing for two seconds, a line shows that it runs. The
// line is gone before the next output. A prompt stays untouched.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen screen
		p := NewPatience(&screen, &screen, "idworker get")
		show := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := screen.take(); got != want {
				t.Errorf("the screen shows %q, want %q", got, want)
			}
		}
		time.Sleep(1500 * time.Millisecond)
		show("")
		time.Sleep(time.Second)
		show("\ridworker get: running for 2 s\x1b[K")
		fmt.Fprintln(p, "1")
		show("\r\x1b[K1\n")
		time.Sleep(3 * time.Second)
		show("\ridworker get: running for 5 s, 1 lines so far\x1b[K")
		_, _ = io.WriteString(p, "Sure? ") // it shows below
		show("\r\x1b[KSure? ")
		time.Sleep(time.Minute)
		show("")
		p.Stop()
		show("")
	})
}

// The line goes away when the command ends.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen screen
		p := NewPatience(io.Discard, &screen, "x")
		time.Sleep(2500 * time.Millisecond)
		p.Stop()
		if got := screen.take(); !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("the screen shows %q", got)
		}
	})
}

// Without a terminal, nothing is shown.
func TestNoTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := NewPatience(&out, nil, "x")
		time.Sleep(time.Minute)
		fmt.Fprintln(p, "1")
		p.Stop()
		if out.String() != "1\n" {
			t.Errorf("the output is %q", out.String())
		}
	})
}
