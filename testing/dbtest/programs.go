package dbtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fillMySQL fills a data folder. MariaDB has a script for it, MySQL an
// option of the server; root has no password until the first start, see
// serveMySQL.
func fillMySQL(program, dir string) []string {
	data := filepath.Join(dir, "data")
	if !isMariaDB(program) {
		return append([]string{program, "--no-defaults", "--initialize-insecure", "--datadir=" + data}, asRoot()...)
	}
	return append([]string{helper("mariadb-install-db", "mysql_install_db"), "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db", smallLog}, asRoot()...)
}

// smallLog makes a data folder that is copied quickly.
const smallLog = "--innodb-log-file-size=8M"

func serveMySQL(program, dir, port string) []string {
	init := filepath.Join(dir, "init.sql")
	_ = os.WriteFile(init, []byte("ALTER USER root@localhost IDENTIFIED BY '"+password+"';\n"+
		"CREATE USER IF NOT EXISTS root@'127.0.0.1' IDENTIFIED BY '"+password+"';\n"+
		"ALTER USER root@'127.0.0.1' IDENTIFIED BY '"+password+"';\n"+
		"GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"), 0o600)
	args := []string{program, "--no-defaults",
		"--datadir=" + filepath.Join(dir, "data"),
		"--socket=" + filepath.Join(dir, "sock"),
		"--pid-file=" + filepath.Join(dir, "pid"),
		"--init-file=" + init,
		"--bind-address=127.0.0.1", "--port=" + port,
		"--skip-name-resolve", "--skip-log-bin",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M",
		"--max-connections=300",
	}
	if isMariaDB(program) {
		args = append(args, smallLog)
	} else {
		args = append(args, "--mysqlx=OFF")
	}
	return append(args, asRoot()...)
}

// helper is the path of a program by any of its names, also if PATH lacks its
// folder.
func helper(names ...string) string {
	for _, name := range names {
		for _, path := range []string{name, "/usr/bin/" + name, "/bin/" + name} {
			if found, err := exec.LookPath(path); err == nil {
				return found
			}
		}
	}
	return names[0]
}

func isMariaDB(program string) bool {
	out, _ := exec.Command(program, "--no-defaults", "--version").Output()
	return strings.Contains(string(out), "MariaDB")
}

// asRoot: a server started as root needs an option that confirms it.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

func fillPostgres(program, dir string) []string {
	// By way of a shell that writes the password: the file has to be the
	// server's.
	return []string{"/bin/sh", "-c",
		`umask 077; echo "$3" >"$2/password" && exec "$1" -D "$2/data" -U postgres -A scram-sha-256 --pwfile="$2/password" -E UTF8 --locale=C -N`,
		"sh", filepath.Join(filepath.Dir(program), "initdb"), dir, password}
}

func servePostgres(program, dir, port string) []string {
	return []string{program, "-D", filepath.Join(dir, "data"), "-p", port, "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=300", "-c", "shared_buffers=32MB"}
}
