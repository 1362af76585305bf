// Package sql is Leaf's table, leaf_alloc, in MySQL, MariaDB or PostgreSQL.
//
//	table, err := sql.Open("postgres://user:password@host:5432/ids", "leaf_alloc")
//
// Each row is a tag. A reservation raises max_id by n and owns the numbers just
// below the new value: [max_id − n, max_id). Leaf's servers do the same, so
// they may use the same rows. Only the columns biz_tag, max_id and step are
// touched; the others differ between installations.
//
// A reservation is a single statement and round trip:
//
//	UPDATE leaf_alloc SET max_id = LAST_INSERT_ID(max_id + 1000)
//	WHERE biz_tag = 'order' AND CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) = 'order'
//	  AND max_id BETWEEN 1 AND 9223372036854774807
//
// PostgreSQL has RETURNING max_id instead of LAST_INSERT_ID. Invariants:
//
//   - The server locks the row while it raises max_id, and returns the value
//     that this statement wrote. Raise is a single statement too,
//     GREATEST(max_id, …), under the same lock, and never lowers a row.
//   - A statement is sent at most once. database/sql retries only while it
//     makes or chooses a connection. A broken connection or a timeout after
//     that is an error, and the range is a gap.
//   - Exactly one row was raised. Two rows mean that biz_tag has no unique key,
//     and the range is discarded.
//   - The comparison as bytes refuses the row of Order for the tag order,
//     whatever the collation is. CheckFirst refuses a collation that makes them
//     equal, and Check refuses columns that pad names.
//   - A row is only deleted if it is not above the value that the caller stored.
//   - Numbers are exact: Check refuses columns that are not integers.
//   - The table survives a crash: Check refuses engines without transactions,
//     UNLOGGED and TEMPORARY tables, views and foreign tables, and looks at
//     partitions and inheriting tables too.
//
// In MySQL, the insert ID only counts if a row was raised: otherwise it may
// come from an earlier statement. A trigger on UPDATE makes it 0: Check finds
// that by raising a row by 0, and does so again before the next range. Every
// connection has autocommit and strict mode on, which the DSN cannot override:
// an uncommitted range, or a number cut off by a narrow column, would be handed
// out again.
//
// In PostgreSQL, the row arrives before the commit, so the answer is read to
// its end. A failed commit is an error after the row. Triggers may change other
// columns, but not max_id. Check finds rules, and row security that hides rows.
// Where synchronous_commit is off, each statement that writes turns it on for
// its own transaction. Statements are not prepared and work behind PgBouncer.
//
// RemoveTag needs the right DELETE, the other methods SELECT, INSERT and
// UPDATE.
//
// Durability reports settings with which the server acknowledges commits before
// they are on disk. They do not make Check fail. The package cannot detect
// other causes of loss: a promoted replica must have every acknowledged commit.
//
// The files: table.go parses and opens; check.go holds Check, CheckFirst,
// Migrate and Durability; reserve.go holds Reserve and the code that reads
// rows; admin.go holds the rest of store.Table; mysql.go and postgres.go hold
// the dialects; errors.go translates errors. To add a dialect, fill in the
// struct dialect, and add it to dialects and to leaf_suite_test.go.
package sql
