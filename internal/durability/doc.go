// Package durability answers one question in two parts: will what JetStream acknowledged
// still be there later?
//
// [CheckStream] looks at the configuration of one stream or bucket: does it keep what it is
// told? [CheckServers] asks the servers: is a write on disk before it is acknowledged?
// Everything in which idworker counts or remembers passes the first check whenever it is
// opened, created or provisioned. A counter that is forgotten hands out its IDs again.
package durability
