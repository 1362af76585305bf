package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
)

// binlog is MariaDB's replication. Every replica begins with the data folder as
// it was installed, and applies the whole binary log.
type binlog struct {
	template string // the installed folder
	started  int    // replicas so far
}

func (b *binlog) prepare(primary *local) error {
	b.template = filepath.Join(primary.dir, "saved")
	b.identify(primary)
	return replaceFolder(primary.data(), b.template)
}

// identify gives a server an ID of its own: a replica skips events of a server
// with its own ID.
func (b *binlog) identify(s *local) {
	b.started++
	s.args = []string{
		fmt.Sprintf("--server-id=%d", b.started), "--log-bin=binlog", "--log-slave-updates", "--skip-slave-start",
		"--innodb-log-file-size=8M", // it is copied
	}
}

func (b *binlog) seed(ctx context.Context, replica *local, primary account) error {
	if err := replaceFolder(b.template, replica.data()); err != nil {
		return err
	}
	b.identify(replica)
	if err := replica.start(); err != nil {
		return err
	}
	db, err := sql.Open(replica.brand.driver, strings.TrimPrefix(replica.brand.dsn(replica.at, ""), "mysql://"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='%s', MASTER_PASSWORD='%s',"+
		" MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4, MASTER_USE_GTID=no, MASTER_CONNECT_RETRY=1", primary.host, primary.port, primary.user, primary.password))
	if err == nil {
		_, err = db.ExecContext(ctx, "START SLAVE")
	}
	return err
}

func (b *binlog) position(ctx context.Context, primary *sql.DB) (string, error) {
	var file, position, do, ignore string
	err := primary.QueryRowContext(ctx, "SHOW MASTER STATUS").Scan(&file, &position, &do, &ignore)
	return fmt.Sprintf("'%s', %s", file, position), err
}

func (b *binlog) reached(ctx context.Context, replica *sql.DB, position string) error {
	var events sql.NullInt64
	err := replica.QueryRowContext(ctx, "SELECT MASTER_POS_WAIT("+position+", 1)").Scan(&events)
	if err == nil && (!events.Valid || events.Int64 < 0) {
		err = errBehind
	}
	return err
}

func (b *binlog) demote(ctx context.Context, primary *sql.DB) error {
	_, err := primary.ExecContext(ctx, "SET GLOBAL read_only = ON")
	return err
}

func (b *binlog) promote(ctx context.Context, replica *sql.DB) error {
	_, err := replica.ExecContext(ctx, "STOP SLAVE")
	if err == nil {
		_, err = replica.ExecContext(ctx, "RESET SLAVE ALL")
	}
	return err
}
