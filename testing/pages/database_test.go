package pages

import (
	"context"
	"database/sql"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/dbtest"
)

// database is a server that pages find at its usual address.
type database struct {
	server    *dbtest.Instance
	address   string
	listening bool
}

func newDatabase(t *testing.T, kind string) *database {
	t.Helper()
	if kind == "postgres" {
		return &database{server: dbtest.StartPostgres(t), address: "127.0.0.1:5432"}
	}
	return &database{server: dbtest.StartMySQL(t), address: "127.0.0.1:3306"}
}

// run executes statements as the administrator, from outside the network of the
// page.
func (d *database) run(t *testing.T, statements string) error {
	done := make(chan error)
	go func() { done <- d.execute(t.Context(), statements) }()
	return <-done
}

// execute executes statements on one connection, because transactions and
// LAST_INSERT_ID belong to a connection. A line with \connect, which psql
// understands, selects another database.
func (d *database) execute(ctx context.Context, statements string) error {
	admin, err := d.server.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	for s := range strings.SplitSeq(statements, ";") {
		if after, ok := strings.CutPrefix(strings.TrimSpace(s), `\connect `); ok {
			name, rest, _ := strings.Cut(after, "\n")
			other, err := sql.Open("pgx", strings.Replace(d.server.DSN(), d.server.Name(), name, 1))
			if err != nil {
				return err
			}
			defer func() { _ = other.Close() }()
			conn, err := other.Conn(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			admin, s = conn, rest
		}
		if strings.TrimSpace(s) == "" {
			continue
		}
		if _, err := admin.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// listen has the server answer in the network of the calling goroutine.
func (d *database) listen(t *testing.T) {
	t.Helper()
	if d.listening {
		return
	}
	d.listening = true
	l, err := net.Listen("tcp", d.address)
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
