// Package dbtest finds a real database for a test: [MySQL] and [Postgres] give
// each test an empty database on a server that all tests of the process share,
// [StartMySQL] and [StartPostgres] a server of the test's own, which it can
// pause, kill and start again. [StartMariaDBPair] and [StartPostgresPair] bring
// a primary and an asynchronous replica that may lag and be promoted. Clients
// connect to a proxy (testing/proxy) while servers behind it fail, slow down or
// change.
//
// A shared server is looked for in this order:
//
//  1. the DSN in IDWORKER_TEST_MYSQL or IDWORKER_TEST_POSTGRES, of a user who
//     may create databases and users
//  2. server binaries on the machine, started in a temporary folder on a free
//     port
//  3. in make test-all, a container, if a Docker engine answers that has the
//     image or can pull it; only the build tag all, which make test-all sets,
//     links testcontainers
//
// A test's own servers are always binaries. Without one the test is skipped, see
// package deps. The log names the server and its version.
//
// No server outlives the test process, whatever becomes of that: containers are
// removed by testcontainers' reaper, and a server that was started from a
// binary has a shell beside it that waits for the end of a pipe.
//
// Servers keep their promises when they are killed, but not when the machine
// is: they run without fsync, which would only make tests slow.
package dbtest
