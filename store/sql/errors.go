package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idworker/idworker/internal/oneline"
	"github.com/idworker/idworker/store"
)

// A reason is the meaning of a server's error code, see dialect.reasons. Those
// that are a *setupError last until an administrator acts.
var (
	errExists   = errors.New("row or table already exists")
	errNoFit    = errors.New("value does not fit the column")
	errShutdown = errors.New("server is shutting down")
	errLocked   = errors.New("row is locked")

	errLogin     = setup("user or password refused", "check the DSN")
	errMayBeTLS  = setup("user or password refused", "check the DSN, and add ?tls=true if TLS is required")
	errTLS       = setup("the server requires TLS", "add ?tls=true to the DSN")
	errHost      = setup("user refused from this host", "check its host in MySQL, pg_hba.conf in PostgreSQL, and TLS in the DSN")
	errParameter = setup("unsupported parameter", "check the DSN")
	errDatabase  = setup("no such database", "create it or check the DSN")
	errSchema    = setup("no such schema", "create it or check the table's name")
	errNoColumn  = setup("a column is missing", "the table needs the columns biz_tag, max_id and step")
	errNoRight   = setup("a right is missing", "grant the user SELECT, INSERT and UPDATE on the table, and access to its database and schema")
	errNotTable  = setup("not a table but a view", "name a table")
	errReadOnly  = setup("the server is read-only", "name the primary in the DSN")

	errBinlog  = setup("binlog_format is STATEMENT, with which the server refuses an UPDATE under READ COMMITTED", "set binlog_format to ROW or MIXED")
	errNoKey   = setup("the server replicates rows by their key", "give the table a primary key")
	errExpired = setup("the user's password has expired", "set another, and put it into the DSN")
	errUnlock  = setup("the user's account is locked", "unlock it with ALTER USER … ACCOUNT UNLOCK")
	errBlocked = setup("the server blocks this host after many connection errors", "run FLUSH HOSTS there")

	errNoDelete = setup("a right is missing", "grant the user DELETE on the table to remove tags")
	errTrigger  = setup("the server does not report the new max_id of an UPDATE", "drop the table's triggers on UPDATE, which SHOW TRIGGERS lists")
	errSecurity = setup("row security keeps the user from rows of the table", "give the user BYPASSRLS, or a policy FOR ALL USING (true)")
	errCheck    = setup("a constraint refuses the row", "drop or change that constraint")
	errRule     = setup("the server refuses UPDATE … RETURNING", "drop the table's rules on UPDATE")

	errSkipped = fmt.Errorf("%w, or drop the trigger that skips the UPDATE", store.ErrChanged)
)

// setupError is a [store.ErrSetup]: what is wrong, and what to do.
type setupError struct{ cause, remedy string }

func setup(cause, remedy string) error { return &setupError{cause, remedy} }

func (e *setupError) Error() string { return e.cause + "; " + e.remedy }

// Unwrap returns store.ErrSetup.
func (e *setupError) Unwrap() error { return store.ErrSetup }

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

// failure is an error of the driver, or of a server, with a text of its own: one
// line, the cause first. The errors are in its chain.
type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string { return f.text }

// Unwrap returns the errors.
func (f *failure) Unwrap() []error { return f.causes }

// explained returns an error with the text of [describe].
func explained(err error) error { return &failure{describe(err), []error{err}} }

// because is explained for an answer of the server, after the reason for it and
// before the remedy.
func because(reason, answer error) error {
	cause, remedy := reason.Error(), ""
	if setup, ok := errors.AsType[*setupError](reason); ok {
		cause, remedy = setup.cause, "; "+setup.remedy
	}
	return &failure{cause + ": " + describe(answer) + remedy, []error{reason, answer}}
}

// explain translates an error of the driver: into the cause, what the server or
// the network reported, and a remedy if one is known. Neither the server's
// messages nor the network's contain the password.
func (t *LeafTable) explain(ctx context.Context, err error) error {
	// Drivers report the end of ctx as such, as a cancellation, or as a broken
	// connection.
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrBadConn)) {
		err = context.Cause(ctx)
	}
	if _, done := errors.AsType[*failure](err); done || errors.Is(err, store.ErrSetup) {
		return err
	}
	if _, answer := serverError(err); answer != nil {
		if reason := t.reason(err); reason != nil {
			return because(reason, err)
		}
		return explained(err)
	}
	cause, remedy := "", ""
	dns, lookup := errors.AsType[*net.DNSError](err)
	op, network := errors.AsType[*net.OpError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case lookup && dns.IsNotFound:
		cause, remedy = "unknown database host", "; check the DSN"
	case lookup:
		cause = "cannot resolve the database's host"
	case network && op.Op == "dial":
		cause, remedy = "database unreachable", "; start it, or check host and port in the DSN"
	case errors.Is(err, context.DeadlineExceeded) && !connecting: // and nothing else is known
		return &failure{timedOut, []error{err}}
	case errors.Is(err, context.DeadlineExceeded), network && op.Timeout():
		cause = timedOut
	case isAway(err):
		cause = "database connection broken"
	case connecting:
		cause = "cannot connect to the database"
	default:
		return err
	}
	return &failure{cause + ": " + describe(err) + remedy, []error{err}}
}

const timedOut = "database timed out"

// The words of a server are bounded, in bytes: with the cause and the remedy,
// all that is described fits into a worker's report.
const (
	maxMessage = 200
	maxDetails = 240
)

// describe returns the words of a server or of the network on one line. The
// driver for PostgreSQL tries each address, by TLS and without, and reports each
// attempt, often in the same words. If a server has answered, only the answers
// count. After the first attempt that timed out, the others had no time.
func describe(err error) string {
	attempts := []error{err}
	if failed, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if joined, ok := failed.Unwrap().(interface{ Unwrap() []error }); ok {
			attempts = joined.Unwrap()
		}
	}
	_, answered := serverError(err)
	var all []string
	expired := false
	for _, attempt := range attempts {
		_, answer := serverError(attempt)
		late := errors.Is(attempt, context.DeadlineExceeded)
		if answered != nil && answer == nil || late && expired {
			continue
		}
		expired = expired || late
		if text := words(attempt); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return oneline.Cut(strings.Join(all, "; "), maxDetails)
}

// words returns the text of the server's error, or of the network's, without
// those of the errors that wrap it.
func words(err error) string {
	if my, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return my.Error()
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok { // the code comes after the message
		return fmt.Sprintf("%s: %s (SQLSTATE %s)", pg.Severity, oneline.Cut(pg.Message, maxMessage), pg.Code)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	return err.Error()
}

// isAway reports whether an error means that no server has answered.
func isAway(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysqldriver.ErrInvalidConn)
}
