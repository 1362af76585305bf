// Package compat runs idworker with other versions: of idworker itself, and of
// nats-server. Its tests prove docs/upgrades.md. Those that mix this version with
// an old one, which testing/deps names, need the repository's history, and make
// test-all runs them. TestServers installs servers, and only make check-packages
// runs it.
package compat
