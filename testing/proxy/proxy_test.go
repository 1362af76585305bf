package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that answers each line with its name and the line.
func echo(t *testing.T, name string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					_, _ = fmt.Fprintf(c, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

// client is a connection by way of a proxy.
type client struct {
	net.Conn
	t     *testing.T
	lines *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, t, bufio.NewReader(c)}
}

func (c *client) send(line string) { _, _ = fmt.Fprintln(c, line) }

// gets expects a line; "" stands for none within a time, EOF for the end.
func (c *client) gets(want string) {
	c.t.Helper()
	within := time.Minute
	if want == "" {
		within = 50 * time.Millisecond
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	got, err := c.lines.ReadString('\n')
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		got = "EOF\n"
	}
	if got != want+"\n" && got+want != "" {
		c.t.Errorf("got %q, want %q", got, want)
	}
}

func TestEachConnectionGoesToTheNextServer(t *testing.T) {
	p := Start(t, echo(t, "a"), "nats://"+echo(t, "b"))
	one := dial(t, p)
	one.send("x")
	one.gets("a x") // so the proxy has accepted it before the next
	two := dial(t, p)
	two.send("x")
	two.gets("b x")
	p.Turn(echo(t, "c"))
	one.send("y")
	one.gets("a y")
	three := dial(t, p)
	three.send("x")
	three.gets("c x")
	p.Switch(echo(t, "d"))
	three.gets("EOF")
	p.Refuse()
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = c.Close()
		t.Error("a refusing proxy accepts")
	}
	p.Mend()
	four := dial(t, p)
	four.send("x")
	four.gets("d x")
}

func TestDataIsLostHeldAndDelayed(t *testing.T) {
	p := Start(t, echo(t, "a"))
	c := dial(t, p)
	p.Hold()
	c.send("held")
	c.gets("")
	p.Release()
	c.gets("a held")
	for _, d := range Both {
		lossy := dial(t, p)
		p.Lose(d)
		lossy.send("lost")
		lossy.gets("")
		p.Mend()
		lossy.gets("EOF")
	}
	p.Delay(20*time.Millisecond, time.Millisecond)
	begin := time.Now()
	c.send("late")
	c.gets("a late")
	p.Mend()
	p.Narrow(100)
	c.send("slow")
	c.gets("a slow")
	if took := time.Since(begin); took < 40*time.Millisecond+110*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	if n := p.Trips(); n < 2 {
		t.Errorf("%d round trips", n)
	}
}

func TestAnswersAreCut(t *testing.T) {
	p := Start(t, echo(t, "a"))
	c := dial(t, p)
	p.CutAnswers("UPDATE")
	c.send("SELECT")
	c.gets("a SELECT")
	c.send("UPDATE")
	c.gets("EOF")
	if n := p.Cuts(); n != 1 {
		t.Errorf("%d answers were cut", n)
	}
}

// TestCutAtAText: no byte of the text passes, also if it comes in pieces; or all
// of its line does.
func TestCutAtAText(t *testing.T) {
	p := Start(t, echo(t, "a"))
	c := dial(t, p)
	sprung := p.Freeze(ToServer, "COMMIT")
	_, _ = fmt.Fprint(c, "BEGIN\nCOM")
	c.gets("a BEGIN")
	_, _ = fmt.Fprint(c, "MIT\n")
	<-sprung
	c.send("more")
	c.gets("")
	p.Release()
	c.gets("a COMMIT")
	c.gets("a more")
	for after, want := range map[bool]string{true: "a x", false: "EOF"} {
		c := dial(t, p)
		sprung := p.CutAt(ToClient, "a x", after)
		c.send("x")
		<-sprung
		c.gets(want)
		c.gets("EOF")
	}
}
