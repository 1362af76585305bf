package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// safeTable is what a table has to be.
const safeTable = "an ordinary logged table"

// checkPersistence refuses tables whose contents go with a crash or a connection, and what is
// no table at all. An update of a table reaches its partitions and heirs, so it looks at them
// too. The catalog is asked as the session resolves the name.
func (s *Store) checkPersistence(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `WITH RECURSIVE part(id) AS (
			SELECT $1::text::regclass::oid
			UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.id
		) SELECT c.relname::text, c.relkind::text, c.relpersistence::text FROM part JOIN pg_catalog.pg_class c ON c.oid = part.id`,
		s.table)
	if err != nil {
		return err
	}
	var name, kind, persistence string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind, &persistence}, func() error {
		if what := forgetful(kind, persistence); what != "" {
			return &store.UnsafeTableError{Kind: fmt.Sprintf("%s (%s)", what, name), Want: safeTable}
		}
		return nil
	})
	return err
}

// forgetful says what is wrong with a relation of that kind and persistence, or "".
func forgetful(kind, persistence string) string {
	switch {
	case kind == "v" || kind == "m":
		return "a view"
	case kind == "f":
		return "a foreign table"
	case kind != "r" && kind != "p":
		return "no table"
	case persistence == "u":
		return "UNLOGGED"
	case persistence == "t":
		return "TEMPORARY"
	case persistence != "p":
		return "of persistence " + persistence
	}
	return ""
}

// settings decide whether a commit is on disk when it is acknowledged. Reservations turn
// synchronous_commit on where it is off, but those of Leaf's servers do not.
var settings = []leaf.Setting{
	{Name: "fsync", Safe: []string{"on"}},
	{Name: "synchronous_commit", Safe: []string{"on", "local", "remote_write", "remote_apply"}},
}

// Durability reports settings with which the server acknowledges commits before they are on
// disk, as they are in the sessions of this store. Each is a [store.UnsafeSettingError], and one
// that the server does not tell is [store.ErrSettingUnknown]; several are joined. Any other
// error means that the database does not answer.
func (s *Store) Durability(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	return leaf.CheckSettings(settings, func(setting leaf.Setting) (value string, err error) {
		err = s.pool.QueryRow(ctx, "SELECT pg_catalog.current_setting($1::text)", setting.Name).Scan(&value)
		if hasCode(err, insufficient) || hasCode(err, undefinedSetting) || hasCode(err, undefinedFunction) {
			return "", setting.Unknown(err)
		}
		return value, s.explainError(err)
	})
}
