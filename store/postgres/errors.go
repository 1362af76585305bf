package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// The server's error codes that matter here.
const (
	stringTooLong        = "22001"
	numericOutOfRange    = "22003"
	uniqueViolation      = "23505"
	readOnlyTransaction  = "25006"
	invalidAuthorization = "28000"
	invalidPassword      = "28P01"
	invalidCatalog       = "3D000"
	invalidSchema        = "3F000"
	insufficient         = "42501"
	undefinedColumn      = "42703"
	undefinedSetting     = "42704"
	duplicateObject      = "42710"
	undefinedFunction    = "42883"
	undefinedTable       = "42P01"
	duplicateTable       = "42P07"
	wrongObjectType      = "42809"
)

// setupErrors are the errors that last until somebody sets the database up, with what
// has to be done.
var setupErrors = map[string]error{
	readOnlyTransaction:  setupError("the server takes no writes, name the primary in the DSN"),
	invalidAuthorization: setupError("the server did not let the user in, check user and TLS settings in the DSN, and pg_hba.conf"),
	invalidPassword:      setupError("the server refused user or password, check both in the DSN"),
	invalidCatalog:       setupError("create the database, or check its name in the DSN"),
	invalidSchema:        setupError("create the schema, or check the name of the table"),
	insufficient:         setupError("grant the user SELECT, INSERT and UPDATE on the table, and USAGE on its schema"),
	undefinedColumn:      setupError("the table needs the columns biz_tag, max_id and step; is it Leaf's?"),
	undefinedTable:       store.ErrNoTable,
	wrongObjectType:      setupError("name a table"),
}

// errNoDelete: only RemoveTag needs this right.
var errNoDelete = setupError("to remove a tag, the user needs the right DELETE on the table; grant it")

func setupError(remedy string) error { return fmt.Errorf("%w: %s", store.ErrSetup, remedy) }

// explainError translates an error of the driver. Neither the server's messages nor the
// network's contain the password.
func (s *Store) explainError(err error) error {
	if errors.Is(err, store.ErrSetup) { // explained already
		return err
	}
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		if setup := setupErrors[answer.Code]; setup != nil {
			return fmt.Errorf("%w: %w", setup, answer)
		}
		return err
	}
	if unreachable := leaf.ExplainUnreachable(err); unreachable != nil {
		return unreachable
	}
	var op *net.OpError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &op) {
		return fmt.Errorf("the connection to the database broke: %w", err)
	}
	return err
}

// tagError adds the table and the tag to err; nil stays nil.
func (s *Store) tagError(tag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s, tag %s: %w", s.name, tag, err)
}

// tableError adds the table to err; nil stays nil.
func (s *Store) tableError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s: %w", s.name, err)
}

func isDuplicate(err error) bool  { return hasCode(err, uniqueViolation) }
func isOutOfRange(err error) bool { return hasCode(err, numericOutOfRange) }
func isTooLong(err error) bool    { return hasCode(err, stringTooLong) }

// alreadyThere says whether err is one of those that CREATE TABLE fails with when another
// process creates the same table at the same moment. Which one depends on how far that process
// is: the table brings a type of its name along. It does not say that the table is there.
func alreadyThere(err error) bool {
	return hasCode(err, duplicateTable) || hasCode(err, duplicateObject) || isDuplicate(err)
}

func hasCode(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}
