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
