// Package postgres is a segment store in Leaf's table in PostgreSQL.
//
// A reservation is one statement in one round trip. It is not prepared first, so it
// works behind PgBouncer too:
//
//	UPDATE leaf_alloc SET max_id = max_id + 1000
//	WHERE biz_tag = 'order' AND biz_tag COLLATE "C" = 'order'
//	  AND max_id BETWEEN 1 AND 9223372036854774807
//	RETURNING max_id
//
// The row is locked while it is raised, and RETURNING gives the value that this
// statement wrote. This rests on the following:
//
//   - The answer is read to its end. The server sends the row before it commits. If the
//     commit fails, or the connection breaks in between, the error comes after the row,
//     and the range is given up.
//   - Exactly one row was raised. If two were, the table has no unique key on biz_tag.
//   - The commit is on disk when it is acknowledged: if synchronous_commit is off, the
//     statement turns it on for its own transaction.
//   - Raise is one statement too: max_id = GREATEST(max_id, …), under the same row lock. So it
//     never lowers what a reservation or another Raise has written.
//   - A statement is sent at most once, as pgx repeats none. The only connections that
//     are replaced are idle ones that turn out to be broken before anything was sent. A
//     broken connection or a timeout after that is an error, and the range, if there was
//     one, is a gap.
//   - Check refuses columns that are not integers: floating point would round.
//   - The table is an ordinary one. Check asks the catalog, and refuses UNLOGGED ones, which
//     are empty after a crash, TEMPORARY ones, views and foreign tables. It looks at partitions
//     and heirs too.
//
// RemoveTag deletes the row, and needs the right DELETE for it; nothing else does. The table
// does not remember the tag: whoever creates it again has to begin above all IDs in use.
//
// Durability reports settings with which the server acknowledges commits before they are on
// disk: fsync has to be on, and synchronous_commit must not be off. Reservations do not depend
// on the latter, as said above, but those of Leaf's servers on the same rows do. These settings
// do not make Check fail.
//
// The package cannot detect a server that forgets what it committed for another reason: a
// standby that is promoted has to have everything that its primary acknowledged.
package postgres
