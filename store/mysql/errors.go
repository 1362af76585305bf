package mysql

import (
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// The server's error numbers that mean something here; MariaDB's are the same.
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

// remedies are for the errors that somebody has to mend.
var remedies = map[uint16]string{
	erDBAccessDenied:     "grant the user SELECT, INSERT and UPDATE on the table, or check the database's name in the DSN",
	erAccessDenied:       "the server refused user or password, check both in the DSN",
	erNoDB:               "the DSN names no database",
	erBadDB:              "create the database, or check its name in the DSN",
	erBadField:           "the table needs the columns biz_tag, max_id and step; is it Leaf's?",
	erHostNotPrivileged:  "the server does not let this host in, create the user for it",
	erTableAccessDenied:  "grant the user SELECT, INSERT and UPDATE on the table",
	erColumnAccessDenied: "grant the user SELECT, INSERT and UPDATE on the table",
	erNoSuchTable:        "the table is missing; --migrate creates it",
	erOptionPrevents:     "the server takes no writes, name the primary in the DSN",
	erNonUpdatableTable:  "name a table, not a view",
	erAccessDeniedNoPw:   "the server refused user or password, check both in the DSN",
	erReadOnlyTx:         "the server takes no writes, name the primary in the DSN",
	erReadOnlyMode:       "the server takes no writes, name the primary in the DSN",
}

// explain translates an error of the driver. Neither the server's messages nor the
// network's contain the password.
func (s *Store) explain(err error) error {
	var answer *driver.MySQLError
	if errors.As(err, &answer) {
		if remedy := remedies[answer.Number]; remedy != "" {
			return fmt.Errorf("%w: %s: %w", store.ErrSetup, remedy, answer)
		}
		return err
	}
	if unreachable := leaf.Unreachable(err); unreachable != nil {
		return unreachable
	}
	if errors.Is(err, driver.ErrInvalidConn) {
		return fmt.Errorf("the connection to the database broke: %w", err)
	}
	return err
}

// tagError says in which row err happened; nil stays nil.
func (s *Store) tagError(tag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s, tag %s: %w", s.name, tag, err)
}

// tableError says in which table err happened; nil stays nil.
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
