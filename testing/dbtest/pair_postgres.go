package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// streaming is PostgreSQL's replication. Every replica begins with a base
// backup.
type streaming struct{}

func (streaming) prepare(*local) error { return nil }

func (streaming) seed(_ context.Context, replica *local, primary account) error {
	if err := os.RemoveAll(replica.data()); err != nil {
		return err
	}
	program, err := filepath.EvalSymlinks(replica.program) // the others may be there alone
	if err != nil {
		return err
	}
	backup := replica.command(filepath.Join(filepath.Dir(program), "pg_basebackup"), "--pgdata="+replica.data(), "--write-recovery-conf",
		"--checkpoint=fast", "--no-sync", "--wal-method=stream", "--host="+primary.host, "--port="+primary.port, "--username="+primary.user)
	backup.Env = append(backup.Env, "PGPASSWORD="+primary.password)
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return replica.start()
}

func (streaming) position(ctx context.Context, primary *sql.DB) (lsn string, err error) {
	err = primary.QueryRowContext(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&lsn)
	return lsn, err
}

func (streaming) reached(ctx context.Context, replica *sql.DB, position string) error {
	var there bool
	err := replica.QueryRowContext(ctx, "SELECT pg_last_wal_replay_lsn() >= '"+position+"'::pg_lsn").Scan(&there)
	if err == nil && !there {
		err = errBehind
	}
	return err
}

func (streaming) demote(ctx context.Context, primary *sql.DB) error {
	for _, statement := range []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"} {
		if _, err := primary.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (streaming) promote(ctx context.Context, replica *sql.DB) error {
	var promoted bool
	err := replica.QueryRowContext(ctx, "SELECT pg_promote()").Scan(&promoted)
	if err == nil && !promoted {
		err = errors.New("not promoted within a minute")
	}
	return err
}
