package pages

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/dbtest"
)

// database is the server that a page calls 127.0.0.1:3306.
type database struct {
	server    *dbtest.Server
	listening bool
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	return &database{server: dbtest.StartMySQL(t)}
}

// run executes statements as the administrator, from outside the network of the
// page.
func (d *database) run(statements string) error {
	done := make(chan error)
	go func() {
		for s := range strings.SplitSeq(statements, ";") {
			if strings.TrimSpace(s) == "" {
				continue
			}
			if _, err := d.server.SQL().ExecContext(context.Background(), s); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return <-done
}

// listen has the server answer in the network of the calling goroutine.
func (d *database) listen(t *testing.T) {
	t.Helper()
	if d.listening {
		return
	}
	d.listening = true
	l, err := net.Listen("tcp", "127.0.0.1:3306")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go d.forward(client)
		}
	}()
}

func (d *database) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", d.server.Addr())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
