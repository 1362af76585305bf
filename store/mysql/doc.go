// Package mysql keeps segments in Leaf's table in MySQL or MariaDB.
//
// A reservation is one statement in one round trip:
//
//	UPDATE leaf_alloc SET max_id = LAST_INSERT_ID(max_id + 1000)
//	WHERE biz_tag = 'order' AND CAST(biz_tag AS BINARY) = 'order'
//	  AND max_id BETWEEN 1 AND 9223372036854774807
//
// The row is locked while it is raised, LAST_INSERT_ID takes down the value that this
// statement wrote, and the server's answer carries it, after the commit. What this
// rests on:
//
//   - The number of rows in the answer decides, not the insert ID. If no row matched,
//     the ID may be one of the connection's past. If two did, the table has no unique
//     key on biz_tag, and the range is burnt.
//   - The table has no trigger on UPDATE. With one, the answer's insert ID is 0 whatever
//     the trigger does, and the range is burnt.
//   - autocommit is on and strict mode is set on every connection, whatever the
//     server's defaults are: a range that is not committed, or that a column too
//     narrow for it cut off, would be handed out again. For the same reason Check
//     refuses columns that are no integers.
//   - A statement is sent once at most. database/sql repeats what fails with
//     driver.ErrBadConn; that is left to making and choosing a connection, which
//     happens before. A broken connection or a timeout after that is an error, and
//     the range, if there was one, a gap. If some proxy repeated the statement after
//     all, the answer would be that of the last execution, and those before it gaps.
//   - A collation that takes Order and order for the same finds the row of the other
//     tag; the comparison as bytes then refuses it.
//
// What it cannot see is a server that forgets what it committed:
// innodb_flush_log_at_trx_commit has to be 1, and a replica that is promoted has to
// have everything its primary acknowledged.
package mysql
