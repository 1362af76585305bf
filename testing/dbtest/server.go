package dbtest

import "testing"

// Server is a server of the test's own, with an empty database on it. It is
// removed when the test ends. Call its methods from the test's own goroutine.
type Server struct {
	*DB
	t      testing.TB
	server Process
}

// StartMySQL runs a MySQL or MariaDB server.
func StartMySQL(t testing.TB) *Server {
	t.Helper()
	return mysqlKind.own(t)
}

// StartPostgres runs a PostgreSQL server.
func StartPostgres(t testing.TB) *Server {
	t.Helper()
	return postgresKind.own(t)
}

// StartMySQLWith is [StartMySQL] with more arguments for the server, which
// override those of this package.
func StartMySQLWith(t testing.TB, args ...string) *Server {
	t.Helper()
	return mysqlKind.own(t, args...)
}

// StartPostgresWith is [StartPostgres] with more arguments for the server,
// which override those of this package.
func StartPostgresWith(t testing.TB, args ...string) *Server {
	t.Helper()
	return postgresKind.own(t, args...)
}

func (k *kind) own(t testing.TB, args ...string) *Server {
	t.Helper()
	s, at, from, err := k.launch(args)
	if err != nil {
		k.need.Missing(t, err)
	}
	t.Logf("server: %s", from)
	t.Cleanup(s.Remove)
	return &Server{DB: k.create(t, at), t: t, server: s}
}

// Beside makes an empty database on this server, with the name of a database on
// another.
func (s *Server) Beside(other *DB) *DB {
	s.t.Helper()
	s.Exec(s.t, "CREATE DATABASE "+other.name)
	d := &DB{kind: s.kind, at: s.at, name: other.name}
	d.sql = s.kind.open(s.t, s.kind.dsn(d.at, d.name))
	return d
}

// Pause freezes the server: connections stay open, and nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.must("pause", s.server.Pause())
}

// Resume lets a paused server continue.
func (s *Server) Resume() {
	s.t.Helper()
	s.must("resume", s.server.Resume())
}

// Kill ends the server at once, without a clean shutdown, and returns when it
// is gone.
func (s *Server) Kill() {
	s.t.Helper()
	s.must("kill", s.server.Kill())
	s.dropIdle()
}

// Restart starts a killed server again, on its port and its data, and returns
// when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.must("restart", s.server.Start())
}

func (s *Server) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %s the server: %v", s.kind.name, what, err)
	}
}
