package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idworker/idworker/store"
)

// A reason is the meaning of a server's error code, see dialect.reasons. Those
// that wrap store.ErrSetup last until an administrator acts, and name the
// remedy.
var (
	errExists   = errors.New("row or table exists already")
	errNoFit    = errors.New("value does not fit the column")
	errShutdown = errors.New("server shuts down")

	errLogin     = setupError("the server refused user or password, check both in the DSN")
	errHost      = setupError("the server does not let this user in from this host, check the user's host in MySQL, pg_hba.conf in PostgreSQL, and the TLS settings in the DSN")
	errParameter = setupError("the server does not support a parameter, check those in the DSN")
	errDatabase  = setupError("create the database, or check its name in the DSN")
	errSchema    = setupError("create the schema, or check the name of the table")
	errNoColumn  = setupError("the table needs the columns biz_tag, max_id and step; is it Leaf's?")
	errNoRight   = setupError("grant the user SELECT, INSERT and UPDATE on the table, and access to its database and schema")
	errNotTable  = setupError("name a table, not a view")
	errReadOnly  = setupError("the server takes no writes, name the primary in the DSN")

	errNoDelete = setupError("to remove a tag, the user needs the right DELETE on the table; grant it")
	errTrigger  = setupError("the server does not report the value to which it raised max_id; if the table has a trigger on UPDATE, drop it")
)

func setupError(remedy string) error { return fmt.Errorf("%w: %s", store.ErrSetup, remedy) }

// serverError returns the error in a server's answer, and its code.
func serverError(err error) (code string, answer error) {
	var my *mysqldriver.MySQLError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &my):
		return strconv.Itoa(int(my.Number)), my
	case errors.As(err, &pg):
		return pg.Code, pg
	}
	return "", nil
}

// reason returns the meaning of a server's error, or nil.
func (t *Table) reason(err error) error {
	code, _ := serverError(err)
	return t.reasons[code]
}

// is reports whether a server's error has a reason.
func (t *Table) is(err, reason error) bool { return errors.Is(t.reason(err), reason) }

// explain adds a remedy or a cause to an error. Neither the server's messages
// nor the network's contain the password.
func (t *Table) explain(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrSetup) { // explained already
		return err
	}
	if _, answer := serverError(err); answer != nil {
		if reason := t.reason(err); errors.Is(reason, store.ErrSetup) {
			return fmt.Errorf("%w: %w", reason, answer)
		}
		return err
	}
	// Drivers report the end of ctx as such, as a cancellation, or as a broken
	// connection.
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrBadConn)) {
		err = context.Cause(ctx)
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("unknown database host, check the DSN: %w", dns)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("the database cannot be reached, check that it is running, and host and port in the DSN: %w", op)
	case errors.Is(err, context.DeadlineExceeded), op != nil && op.Timeout():
		return fmt.Errorf("the database did not answer in time: %w", err)
	case op != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, driver.ErrBadConn), errors.Is(err, mysqldriver.ErrInvalidConn):
		return fmt.Errorf("the connection to the database broke: %w", err)
	}
	return err
}
