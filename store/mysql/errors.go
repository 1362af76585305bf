package mysql

import (
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// The server's error numbers that matter here. MariaDB's are the same.
const (
	erDBAccessDenied     = 1044
	erAccessDenied       = 1045
	erNoDB               = 1046
	erBadDB              = 1049
	erBadField           = 1054
	erDupEntry           = 1062
	erHostNotPrivileged  = 1130
	erTableAccessDenied  = 1142
	erColumnAccessDenied = 1143
	erNoSuchTable        = 1146
	erWarnDataOutOfRange = 1264
	erOptionPrevents     = 1290 // --read-only, for one
	erDataTooLong        = 1406
	erNonUpdatableTable  = 1288
	erAccessDeniedNoPw   = 1698
	erReadOnlyTx         = 1792
	erReadOnlyMode       = 1836
)

// setupErrors are the errors that last until somebody sets the database up, with what
// has to be done.
var setupErrors = map[uint16]error{
	erDBAccessDenied:     setupError("grant the user SELECT, INSERT and UPDATE on the table, or check the database's name in the DSN"),
	erAccessDenied:       setupError("the server refused user or password, check both in the DSN"),
	erNoDB:               setupError("the DSN names no database"),
	erBadDB:              setupError("create the database, or check its name in the DSN"),
	erBadField:           setupError("the table needs the columns biz_tag, max_id and step; is it Leaf's?"),
	erHostNotPrivileged:  setupError("the server does not accept connections from this host; create the user for it"),
	erTableAccessDenied:  setupError("grant the user SELECT, INSERT and UPDATE on the table"),
	erColumnAccessDenied: setupError("grant the user SELECT, INSERT and UPDATE on the table"),
	erNoSuchTable:        store.ErrNoTable,
	erOptionPrevents:     setupError("the server takes no writes, name the primary in the DSN"),
	erNonUpdatableTable:  setupError("name a table, not a view"),
	erAccessDeniedNoPw:   setupError("the server refused user or password, check both in the DSN"),
	erReadOnlyTx:         setupError("the server takes no writes, name the primary in the DSN"),
	erReadOnlyMode:       setupError("the server takes no writes, name the primary in the DSN"),
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
	var answer *driver.MySQLError
	if errors.As(err, &answer) {
		if setup := setupErrors[answer.Number]; setup != nil {
			return fmt.Errorf("%w: %w", setup, answer)
		}
		return err
	}
	if unreachable := leaf.ExplainUnreachable(err); unreachable != nil {
		return unreachable
	}
	if errors.Is(err, driver.ErrInvalidConn) {
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

func isDuplicate(err error) bool  { return hasNumber(err, erDupEntry) }
func isOutOfRange(err error) bool { return hasNumber(err, erWarnDataOutOfRange) }
func isTooLong(err error) bool    { return hasNumber(err, erDataTooLong) }

func hasNumber(err error, number uint16) bool {
	var answer *driver.MySQLError
	return errors.As(err, &answer) && answer.Number == number
}
