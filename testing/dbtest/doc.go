// Package dbtest finds a real database for a test: [MySQL] and [Postgres] give
// each test an empty database on a server that all tests of the process share,
// [StartMySQL] and [StartPostgres] a server of the test's own, which it can
// pause, kill and start again. With [StartLocalMySQL] and [StartLocalPostgres]
// the data folder can also be put back to an older state, and
// [StartMariaDBPair] and [StartPostgresPair] bring a primary and an
// asynchronous replica that may lag and be promoted. Clients connect to a
// [Proxy] while servers behind it fail, slow down or change.
//
// A server is looked for in this order:
//
//  1. the DSN in IDWORKER_TEST_MYSQL or IDWORKER_TEST_POSTGRES, of a user who
//     may create databases and users; not for a server of the test's own
//  2. server binaries on the machine, started in a temporary folder on a free
//     port
//  3. in make test-all, a container, if a Docker engine answers that has the
//     image or can pull it
//
// Data folders and replicas are always those of a binary.
//
// Without a server the test is skipped, see package deps. The log names the
// server and its version.
//
// No server outlives the test process, whatever becomes of that: containers are
// removed by testcontainers' reaper, and a server that was started from a
// binary has a shell beside it that waits for the end of a pipe.
//
// Servers keep their promises when they are killed, but not when the machine
// is: they run without fsync, which would only make tests slow.
package dbtest
