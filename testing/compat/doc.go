// Package compat runs idworker with other versions: of idworker itself, and of
// nats-server. Its tests prove docs/upgrades.md. TestRolling,
// TestWorkerAndLoaderOfTwoVersions and TestNewRights need the repository's
// history, and make test-all runs them; TestServers installs servers, and only
// make check-packages runs it.
package compat
