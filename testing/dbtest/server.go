package dbtest

import (
	"syscall"
	"testing"
)

// Instance is a server of the test's own, with an empty database on it. It is
// removed when the test ends. Call its methods from the test's own goroutine.
type Instance struct {
	*DB
	t     testing.TB
	local *local
}

// StartMySQL runs a MySQL or MariaDB server. Arguments for it override those of
// this package.
func StartMySQL(t testing.TB, args ...string) *Instance {
	t.Helper()
	return mysqlServer.own(t, args...)
}

// StartPostgres runs a PostgreSQL server. Arguments for it override those of
// this package.
func StartPostgres(t testing.TB, args ...string) *Instance {
	t.Helper()
	return postgresServer.own(t, args...)
}

func (b *brand) own(t testing.TB, args ...string) *Instance {
	t.Helper()
	s, err := b.install(args...)
	if err != nil {
		b.need.Missing(t, err)
	}
	t.Cleanup(s.remove)
	return b.serverOn(t, s)
}

// serverOn makes an empty database on a server that runs.
func (b *brand) serverOn(t testing.TB, s *local) *Instance {
	t.Helper()
	from, err := b.describe(s.program, s.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("server: %s", from)
	return &Instance{b.create(t, s.at), t, s}
}

// Beside makes an empty database on this server, with the name of a database on
// another.
func (s *Instance) Beside(other *DB) *DB {
	s.t.Helper()
	s.Exec(s.t, "CREATE DATABASE "+other.name)
	d := &DB{brand: s.brand, at: s.at, name: other.name}
	d.sql = s.brand.open(s.t, s.brand.dsn(d.at, d.name))
	return d
}

// Pause freezes the server: connections stay open, and nothing answers.
func (s *Instance) Pause() {
	s.t.Helper()
	s.must("pause", s.local.signal(syscall.SIGSTOP))
}

// Resume lets a paused server continue.
func (s *Instance) Resume() {
	s.t.Helper()
	s.must("resume", s.local.signal(syscall.SIGCONT))
}

// Kill ends the server at once, without a clean shutdown, and returns when it
// is gone.
func (s *Instance) Kill() {
	s.t.Helper()
	s.must("kill", s.local.kill())
	s.dropIdle()
}

// Restart starts a killed server again, on its port and its data, and returns
// when it answers.
func (s *Instance) Restart() {
	s.t.Helper()
	s.must("restart", s.local.start())
}

func (s *Instance) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %s the server: %v", s.brand.name, what, err)
	}
}
