// Package resource makes the streams, buckets and consumers of an installation, in two
// ways:
//
//   - Ensure, for a process that serves. It looks first and creates only what is
//     missing: where an administrator has made everything, the process needs no right
//     to create anything. What exists is left as it is.
//   - Apply, for an administrator. It creates what is missing as well, and brings
//     replicas and ages of the rest in line. Other differences are taken to be
//     intended and left alone; one that is unsafe or cannot be changed in place is an error.
//
// Neither deletes or empties anything: an emptied bucket of counters hands out all IDs
// again. For the same reason neither makes a bucket of which something else says that it has
// been there, see [Evidence]: streams do get lost, with a disk, when a server on its own is
// made one of a cluster, or by somebody who cleans up. What the evidence is, is stated where
// a bucket is made.
package resource
