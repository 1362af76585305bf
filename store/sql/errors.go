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

// A reason is the meaning of a server's error code, see dialect.reasons.
// Reasons that wrap store.ErrSetup last until an administrator acts, and name
// the remedy.
var (
	errExists   = errors.New("row or table already exists")
	errNoFit    = errors.New("value does not fit the column")
	errShutdown = errors.New("server is shutting down")
	errLocked   = errors.New("row is locked")

	errLogin     = setupError("user or password refused; check the DSN")
	errMayBeTLS  = setupError("user or password refused; check the DSN, and add ?tls=true if TLS is required")
	errTLS       = setupError("the server requires TLS; add ?tls=true to the DSN")
	errHost      = setupError("user refused from this host; check its host in MySQL, pg_hba.conf in PostgreSQL, and TLS in the DSN")
	errParameter = setupError("unsupported parameter; check the DSN")
	errDatabase  = setupError("no such database; create it or check the DSN")
	errSchema    = setupError("no such schema; create it or check the table's name")
	errNoColumn  = setupError("the table needs the columns biz_tag, max_id and step")
	errNoRight   = setupError("grant the user SELECT, INSERT and UPDATE on the table, and access to its database and schema")
	errNotTable  = setupError("not a table but a view")
	errReadOnly  = setupError("the server is read-only; name the primary in the DSN")

	errBinlog  = setupError("binlog_format is STATEMENT, with which the server refuses an UPDATE under READ COMMITTED; set binlog_format to ROW or MIXED")
	errNoKey   = setupError("the server replicates rows by their key; give the table a primary key")
	errExpired = setupError("the user's password has expired; set another, and put it into the DSN")
	errUnlock  = setupError("the user's account is locked; unlock it with ALTER USER … ACCOUNT UNLOCK")
	errBlocked = setupError("the server blocks this host after many connection errors; run FLUSH HOSTS there")

	errNoDelete = setupError("grant the user DELETE on the table to remove tags")
	errTrigger  = setupError("the server does not report the new max_id of an UPDATE; drop the table's triggers on UPDATE, which SHOW TRIGGERS lists")
	errSecurity = setupError("row security keeps the user from rows of the table; give the user BYPASSRLS, or a policy FOR ALL USING (true)")
	errRule     = setupError("the server refuses UPDATE … RETURNING; drop the table's rules on UPDATE")

	errSkipped = fmt.Errorf("%w, or drop the trigger that skips the UPDATE", store.ErrChanged)
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

// reason returns the meaning of a server's error, or nil. PostgreSQL has codes
// with several meanings, and names the routine.
func (t *LeafTable) reason(err error) error {
	code, _ := serverError(err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && t.reasons[pg.Routine] != nil {
		code = pg.Routine
	}
	return t.reasons[code]
}

// is reports whether a server's error has a reason.
func (t *LeafTable) is(err, reason error) bool { return errors.Is(t.reason(err), reason) }

// explain adds a remedy or a cause to an error. Neither the server's messages
// nor the network's contain the password.
func (t *LeafTable) explain(ctx context.Context, err error) error {
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
		return fmt.Errorf("unknown database host; check the DSN: %w", dns)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("database unreachable; check host and port in the DSN: %w", op)
	case errors.Is(err, context.DeadlineExceeded), op != nil && op.Timeout():
		return fmt.Errorf("database timed out: %w", err)
	case isAway(err):
		return fmt.Errorf("database connection broken: %w", err)
	}
	return err
}

// isAway reports whether an error means that no server has answered.
func isAway(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysqldriver.ErrInvalidConn)
}
