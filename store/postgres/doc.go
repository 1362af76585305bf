// Package postgres keeps segments in Leaf's table in PostgreSQL.
//
// A reservation is one statement in one round trip, without preparing it first, so
// that it works behind PgBouncer as well:
//
//	UPDATE leaf_alloc SET max_id = max_id + 1000
//	WHERE biz_tag = 'order' AND biz_tag COLLATE "C" = 'order'
//	  AND max_id BETWEEN 1 AND 9223372036854774807
//	RETURNING max_id
//
// The row is locked while it is raised, and RETURNING is the value that this statement
// wrote. What this rests on:
//
//   - The answer is read to its end. The server sends the row before it commits; if
//     the commit fails, or the connection breaks in between, the error comes after the
//     row, and the range is given up.
//   - Exactly one row was raised. If two were, the table has no unique key on biz_tag.
//   - The commit is on disk when it is acknowledged: where synchronous_commit is off,
//     the statement turns it on for its own transaction.
//   - A statement is sent once at most: pgx repeats none. Only idle connections that
//     turn out to be broken before anything was sent are replaced. A broken connection
//     or a timeout after that is an error, and the range, if there was one, a gap.
//   - Check refuses columns that are no integers: floating point would round.
//
// What it cannot see is a server that forgets what it committed: fsync has to be on,
// and a standby that is promoted has to have everything its primary acknowledged.
package postgres
