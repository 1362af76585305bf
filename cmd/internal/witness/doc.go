// Package witness remembers, outside the data that it guards, what was seen in buckets in
// which something is counted.
//
// A bucket that is put back to an older state, by a backup, a snapshot or a failing disk,
// looks like any other bucket. Nothing in it says that it once counted further, and whoever
// serves from it hands out again what was handed out since. So a witness notes for every key
// how far it was seen, in a folder that does not go back with the data. Before anything is
// served, what is there is compared with what was seen: [Witness.Compare].
//
// # What is noted, and what is compared
//
// For every key the revision at which it was seen, and, if its value is a counter, the number
// in it. For every bucket, when its stream was created.
//
//   - A counter must not be lower than it was seen, and not be missing. That is all that
//     matters for counters: a bucket that was made a second time and then raised above what was
//     seen is as good as the first one, and one that is the first and went back is not.
//   - Any other key must not be at a lower revision than it was seen at, in the same
//     stream. Revisions of another stream prove nothing.
//   - A key that was deleted in the bucket has a marker there, with a revision. That counts as
//     a change of the key, and nothing is left to compare. If the marker is missing, the key is.
//
// What is noted never goes down while a witness runs. A bucket that goes back, is deleted,
// or is made again under a running process is logged as an error, and its lower numbers are
// not noted: the next start finds the difference again, unless the counters were raised in
// the meantime. Only [Witness.Renew] forgets, and only what is not a counter.
//
// # What it cannot see
//
//   - It is told of a write a moment after the server has acknowledged it, and what it writes
//     is not synced at once. If the process is killed in between, or the machine loses power,
//     the last moments are missing in it: it then misses that a bucket lost just these.
//   - If the folder itself goes back with the data, or is a part of the same backup, it goes
//     back with it.
//   - It watches while its process runs. What others count while it does not run is noted
//     when it starts again, but if the bucket goes back before that, nobody knows.
package witness
