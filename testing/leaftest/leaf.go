package leaftest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/idworker/idworker/store"
)

// Dialect is Leaf on a kind of database.
type Dialect struct {
	Shapes map[string]string  // CREATE TABLE leaf_alloc …, as different installations have it
	Arg    func(n int) string // the placeholder of the nth argument
}

// The tables of Leaf's script, and of its translation for PostgreSQL.
const (
	officialMySQL = "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint(20) NOT NULL DEFAULT '1'," +
		" step int(11) NOT NULL, description varchar(256) DEFAULT NULL," +
		" update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB"

	officialPostgres = "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '' PRIMARY KEY, max_id bigint NOT NULL DEFAULT 1," +
		" step int NOT NULL, description varchar(256), update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)"
)

// MySQL is Leaf where it is at home.
var MySQL = Dialect{
	Shapes: map[string]string{
		"official": officialMySQL,
		"desc":     strings.Replace(officialMySQL, "description", "`desc`", 1),
		"id": "CREATE TABLE leaf_alloc (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, biz_tag varchar(128) NOT NULL DEFAULT ''," +
			" max_id bigint unsigned NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256) DEFAULT NULL," +
			" create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP," +
			" update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE KEY uk (biz_tag)) ENGINE=InnoDB",
	},
	Arg: func(int) string { return "?" },
}

// Postgres is Leaf with another driver.
var Postgres = Dialect{
	Shapes: map[string]string{
		"official": officialPostgres,
		"desc":     strings.Replace(officialPostgres, "description", `"desc"`, 1),
		"id": "CREATE TABLE leaf_alloc (id bigserial PRIMARY KEY, biz_tag varchar(128) NOT NULL DEFAULT '' UNIQUE," +
			" max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256)," +
			" create_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)",
	},
	Arg: func(n int) string { return fmt.Sprintf("$%d", n) },
}

// Segment takes a segment as Leaf's servers do, with their pair of statements.
func (d Dialect) Segment(ctx context.Context, db *sql.DB, tag string) (seg store.Segment, step int64, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return seg, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = "+d.Arg(1), tag); err != nil {
		return seg, 0, err
	}
	var maxID int64
	err = tx.QueryRowContext(ctx, "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = "+d.Arg(1), tag).Scan(&maxID, &step)
	if err != nil {
		return seg, 0, err
	}
	return store.Segment{First: maxID - step, End: maxID}, step, tx.Commit()
}
