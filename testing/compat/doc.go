// Package compat runs idworker on several versions of nats-server. Its test
// proves the table of docs/upgrades.md; make check-packages runs it.
package compat
