package sql

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
)

// Access to internals for the tests.
var (
	UntilSilent = untilSilent
	ListSilence = listSilence
)

// DB is the pool of a table.
func (t *LeafTable) DB() *dbsql.DB { return t.db }

// WithSetting returns the table with another setting that has to be 1.
func (t *LeafTable) WithSetting(name string) *LeafTable {
	d := *t.dialect
	d.settings = append([]setting{{name: name, safe: []string{"1"}}}, d.settings...)
	return &LeafTable{dialect: &d, db: t.db, name: t.name, words: t.words}
}

// Starting returns the configuration with a statement that begins each
// connection.
func (c Config) Starting(statement string) Config {
	c.connector = starting{c.connector, statement}
	return c
}

type starting struct {
	driver.Connector
	statement string
}

func (s starting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, s.statement, nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Failing returns the configuration of a database to which no connection is
// made: the driver reports the error.
func (c Config) Failing(err error) Config {
	c.connector = failing{c.connector, err}
	return c
}

type failing struct {
	driver.Connector
	err error
}

func (f failing) Connect(context.Context) (driver.Conn, error) { return nil, f.err }
