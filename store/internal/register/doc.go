// Package register is what the registers of package store have in common: they are KV
// buckets with one entry for each tag, see [store.Register].
package register
