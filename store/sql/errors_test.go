package sql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
)

// dialed is the error of a TCP connection that was not made.
func dialed(address string, err error) *net.OpError {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)), Err: err}
}

// connecting returns the error of the driver for PostgreSQL for a host with
// some addresses, each of which it tries by TLS and without. The attempts fail
// with the errors in turn; nil fails when the time is up.
func connecting(t *testing.T, addresses []string, attempts ...error) error {
	t.Helper()
	c, err := pgconn.ParseConfig("postgres://app:" + canary + "@db.example:5432/leaf")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) {
		if addresses == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.0.0.2:53", IsNotFound: true}
		}
		return addresses, nil
	}
	c.DialFunc = func(_ context.Context, _, address string) (net.Conn, error) {
		err := attempts[0]
		attempts = attempts[1:]
		if err == nil {
			<-ctx.Done()
			err = dialed(address, os.ErrDeadlineExceeded)
		}
		return nil, err
	}
	_, err = pgconn.ConnectConfig(ctx, c)
	return err
}

// The text of a driver's error is one line: the cause first, then what the
// server or the network reported, without repetitions, then the remedy.
func TestTextOfDriverErrors(t *testing.T) {
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	refused4, refused6 := dialed("10.0.0.5:5432", refused), dialed("[fd00::5]:5432", refused)
	pg := func(severity, code, message string) error {
		return &pgconn.PgError{Severity: severity, Code: code, Message: message}
	}
	my := func(number uint16, state, message string) error {
		return &mysqldriver.MySQLError{Number: number, SQLState: [5]byte([]byte(state)), Message: message}
	}
	one, two := []string{"10.0.0.5"}, []string{"fd00::5", "10.0.0.5"}
	for _, c := range []struct {
		what, kind string
		err        error
		setup      bool
		want       string
	}{
		{"refused", "mysql", dialed("10.0.0.5:3306", refused), false,
			"database unreachable: dial tcp 10.0.0.5:3306: connect: connection refused; start it, or check host and port in the DSN"},
		{"refused, one address", "postgres", connecting(t, one, refused4, refused4), false,
			"database unreachable: dial tcp 10.0.0.5:5432: connect: connection refused; start it, or check host and port in the DSN"},
		{"refused, two addresses", "postgres", connecting(t, two, refused6, refused4, refused6, refused4), false,
			"database unreachable: dial tcp [fd00::5]:5432: connect: connection refused; dial tcp 10.0.0.5:5432: connect: connection refused; start it, or check host and port in the DSN"},
		{"unknown host", "mysql", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "db.example", IsNotFound: true}}, false,
			"unknown database host: lookup db.example: no such host; check the DSN"},
		{"unknown host", "postgres", connecting(t, nil), false,
			"unknown database host: lookup db.example on 10.0.0.2:53: no such host; check the DSN"},
		{"no resolver", "mysql", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "db.example", Server: "10.0.0.2:53", IsTemporary: true}}, false,
			"cannot resolve the database's host: lookup db.example on 10.0.0.2:53: server misbehaving"},
		{"timed out", "mysql", context.DeadlineExceeded, false, "database timed out"},
		{"timed out", "postgres", connecting(t, one, nil, nil), false,
			"database timed out: 10.0.0.5:5432 (db.example): dial error: timeout: context deadline exceeded"},
		{"timed out, two addresses", "postgres", connecting(t, two, nil, nil, nil, nil), false,
			"database timed out: [fd00::5]:5432 (db.example): dial error: timeout: context deadline exceeded"},
		{"timed out while reading", "mysql", &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, false,
			"database timed out: read tcp: i/o timeout"},
		{"broken", "mysql", mysqldriver.ErrInvalidConn, false, "database connection broken: invalid connection"},
		{"broken", "postgres", driver.ErrBadConn, false, "database connection broken: driver: bad connection"},
		{"no TLS at the server", "postgres", connecting(t, one, errors.New("server refused TLS connection"), errors.New("server refused TLS connection")), false,
			"cannot connect to the database: 10.0.0.5:5432 (db.example): dial error: server refused TLS connection"},
		{"wrong password", "mysql", my(1045, "28000", "Access denied for user 'app'@'10.0.0.9' (using password: YES)"), true,
			"user or password refused: Error 1045 (28000): Access denied for user 'app'@'10.0.0.9' (using password: YES); check the DSN, and add ?tls=true if TLS is required"},
		{"wrong password", "postgres", connecting(t, one, errors.New("server refused TLS connection"), pg("FATAL", "28P01", `password authentication failed for user "app"`)), true,
			`user or password refused: FATAL: password authentication failed for user "app" (SQLSTATE 28P01); check the DSN`},
		{"TLS required", "mysql", my(3159, "HY000", "Connections using insecure transport are prohibited while --require_secure_transport=ON."), true,
			"the server requires TLS: Error 3159 (HY000): Connections using insecure transport are prohibited while --require_secure_transport=ON.; add ?tls=true to the DSN"},
		{"host refused, by TLS and without", "postgres", connecting(t, one, pg("FATAL", "28000", `no pg_hba.conf entry for host "10.0.0.9", user "app", database "leaf", SSL encryption`),
			pg("FATAL", "28000", `no pg_hba.conf entry for host "10.0.0.9", user "app", database "leaf", no encryption`)), true,
			`user refused from this host: FATAL: no pg_hba.conf entry for host "10.0.0.9", user "app", database "leaf", SSL encryption (SQLSTATE 28000); ` +
				`FATAL: no pg_hba.conf entry for host "10.0.0.9", user "app", database "leaf", no encryption (SQLSTATE 28000); ` +
				`check its host in MySQL, pg_hba.conf in PostgreSQL, and TLS in the DSN`},
		{"permission denied", "mysql", my(1142, "42000", "UPDATE command denied to user 'app'@'10.0.0.9' for table 'leaf_alloc'"), true,
			"a right is missing: Error 1142 (42000): UPDATE command denied to user 'app'@'10.0.0.9' for table 'leaf_alloc'; " +
				"grant the user SELECT, INSERT and UPDATE on the table, and access to its database and schema"},
		{"permission denied", "postgres", pg("ERROR", "42501", "permission denied for table leaf_alloc"), true,
			"a right is missing: ERROR: permission denied for table leaf_alloc (SQLSTATE 42501); " +
				"grant the user SELECT, INSERT and UPDATE on the table, and access to its database and schema"},
		{"a trigger's message", "mysql", my(1644, "45000", "库存不足\r\n\t禁止 UPDATE\x1b[31m\x00"), false,
			"Error 1644 (45000): 库存不足 禁止 UPDATE [31m"},
		{"a trigger's message", "postgres", pg("ERROR", "P0001", "库存不足\n\t禁止 UPDATE\x07"), false,
			"ERROR: 库存不足 禁止 UPDATE (SQLSTATE P0001)"},
		{"a long message", "mysql", my(1644, "45000", strings.Repeat("word ", 200)), false,
			"Error 1644 (45000):" + strings.Repeat(" word", 43) + "…"},
		{"a long message", "postgres", pg("ERROR", "P0001", strings.Repeat("word ", 200)), false,
			"ERROR:" + strings.Repeat(" word", 39) + "… (SQLSTATE P0001)"},
		{"shutdown", "postgres", pg("FATAL", "57P01", "terminating connection due to administrator command"), false,
			"server is shutting down: FATAL: terminating connection due to administrator command (SQLSTATE 57P01)"},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprint(c.kind, " ", c.what), " ", "_"), func(t *testing.T) {
			config, err := sql.Parse(map[string]string{"mysql": "mysql://u:p@tcp(h:1)/leaf", "postgres": "postgres://u:p@h:1/leaf"}[c.kind], "leaf_alloc")
			if err != nil {
				t.Fatal(err)
			}
			table, err := config.Failing(c.err).Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = table.Close() }()
			_, err = table.Reserve(t.Context(), "order", 1)
			if err == nil || err.Error() != "table leaf_alloc, tag order: "+c.want {
				t.Errorf("\n  %v\nwant\n  table leaf_alloc, tag order: %s", err, c.want)
			}
			if !errors.Is(err, c.err) || errors.Is(err, store.ErrSetup) != c.setup {
				t.Errorf("%v does not wrap the driver's error, or is no ErrSetup: want %v", err, c.setup)
			}
			mute(t, err)
		})
	}
}
