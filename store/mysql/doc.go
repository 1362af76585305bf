// Package mysql is a segment store in Leaf's table in MySQL or MariaDB.
//
// A reservation is one statement in one round trip:
//
//	UPDATE leaf_alloc SET max_id = LAST_INSERT_ID(max_id + 1000)
//	WHERE biz_tag = 'order' AND CAST(biz_tag AS BINARY) = 'order'
//	  AND max_id BETWEEN 1 AND 9223372036854774807
//
// The row is locked while it is raised, LAST_INSERT_ID records the value that this
// statement wrote, and the server's answer carries that value, after the commit. This
// rests on the following:
//
//   - The number of rows in the answer decides, not the insert ID. If no row matched,
//     the insert ID may be that of an earlier statement of the connection. If two
//     matched, the table has no unique key on biz_tag, and the range is burnt.
//   - The table has no trigger on UPDATE. With one, the answer's insert ID is 0,
//     whatever the trigger does, and the range is burnt.
//   - autocommit and strict mode are on for every connection, whatever the server's
//     defaults are: a range that was not committed, or that was cut off by a column too
//     narrow for it, would be handed out again. For the same reason Check refuses
//     columns that are not integers.
//   - A statement is sent at most once. database/sql repeats what fails with
//     driver.ErrBadConn; here it may do so only while it makes and chooses a
//     connection, before anything is sent. A broken connection or a timeout after that
//     is an error, and the range, if there was one, is a gap. If a proxy repeated the
//     statement after all, the answer would be that of the last execution, and the
//     ranges of those before it would be gaps.
//   - Raise is one statement too: max_id = GREATEST(max_id, …), under the same row lock. So it
//     never lowers what a reservation or another Raise has written.
//   - A collation that treats Order and order as equal finds the row of the other tag;
//     the comparison as bytes then refuses it. The other tag cannot be created beside it, so
//     CheckFirst refuses such a column for tags whose names callers choose.
//   - The table's engine is transactional. Check asks information_schema, and refuses the
//     others (MEMORY is empty after a restart, MyISAM may lose what it acknowledged), and views.
//
// RemoveTag deletes the row, and needs the right DELETE for it; nothing else does. The table
// does not remember the tag: whoever creates it again has to begin above all IDs in use.
//
// Durability reports settings with which the server acknowledges commits before they are on
// disk: innodb_flush_log_at_trx_commit has to be 1 (or MariaDB's 3, which syncs more often),
// and so has sync_binlog where there is a binary log. They do not make Check fail. Settings of
// other engines are not looked at.
//
// The package cannot detect a server that forgets what it committed for another reason: a
// replica that is promoted has to have everything that its primary acknowledged.
package mysql
