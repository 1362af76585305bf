// Package regions tests docs/regions.md on real servers: nats-server as go.mod
// pins it, with nats.conf, cluster.conf and the files of that page, and
// idworker. Region a is the hub, with three servers and JetStream; gateways join
// it with region b, and the edge is its leaf node. All connections between
// regions go through proxies, which cut or freeze them.
//
// Callers in all regions record each request. The tests check every ID for
// duplicates over all regions, and the order of strict tags. Times are figures
// for the page: tests log them, and wait for conditions only.
//
// make check-packages runs these tests, as does
//
//	IDWORKER_TESTS=release go test -v ./testing/regions
package regions
