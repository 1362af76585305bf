// Package jetstream is a segment store in a JetStream KV bucket: no database at all.
//
// Each tag is a key of the bucket <prefix>_segments, its value the counter
//
//	{"max_id":1001,"step":1000}
//
// where max_id is the first ID that is not handed out yet. A reservation reads the
// counter and writes it back, raised by the step, on the condition that the key's
// revision is still the one that was read. Uniqueness rests on this condition alone:
//
//   - Of all who read the same revision, one writes; the others read again.
//   - The read may be old, if a replica answers that lags behind. Then the write fails.
//   - The answer to a write may be lost. Then nobody knows whether the counter was
//     raised, so the range is given up: Reserve returns the error, and does not check
//     whether the write succeeded after all. If it did, the numbers are a gap; if it
//     did not, they go to the next caller.
//
// A tag that RemoveTag removed stays as a tombstone, which keeps the counter:
//
//	{"max_id":1001,"step":1000,"removed":true}
//
// There is no such tag then, but CreateTag can make one again, as long as it begins at 1001
// or above. Processes from before tombstones take one for a corrupt entry. They reserve
// nothing from it, and report it when they list tags, until they are upgraded. A key that
// somebody deletes by hand is forgotten, tombstone or not.
//
// The condition cannot tell whether the bucket itself went back in time or was created
// again. Open refuses a bucket that is configured to forget (memory, TTL, asynchronous
// writes). The rest is up to whoever runs it: sync_interval: always on the server, no
// restored backups, and no key that is deleted and created again with a lower first ID.
//
// Besides the bucket's key-value subjects, a user of this package needs
// $JS.API.STREAM.INFO and $JS.API.STREAM.MSG.GET of its stream, KV_<prefix>_segments.
package jetstream
