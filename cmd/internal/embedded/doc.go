// Package embedded is a NATS server in this process, for installations without
// a server of their own.
//
// Unique IDs depend on three things here:
//
//   - Every write is synced before it is acknowledged. An acknowledged range
//     that a power failure lost would be issued again. [Start] checks this.
//   - The data folder is locked. Two servers on one folder would issue the same
//     numbers.
//   - Start refuses a folder that has lost data: a damaged folder, which a NATS
//     server would start with, or an older copy from a backup or snapshot. The
//     numbers issued since that copy would be issued again. A witness, a file
//     of package register, records how far the register and the buckets beside
//     it have come: those of the clock and of the settings, without which the
//     installation would be made anew. Start compares with it before it
//     listens, because workers elsewhere don't wait.
//
// After a failed write, as on a full disk, a NATS server never writes to that
// stream again. [NATS.Guard] returns once there is space, which ends the
// process: only a start compares the data. Until then workers serve their
// buffers, and [NATS.Trouble] returns the error. JetStream could be
// re-enabled in place, but without the comparison.
//
// # The witness
//
// By default the witness is beside the data folder, not in it, because a
// restore of the folder would restore it too. Folder and witness contain the
// same random name.
//
//	folder  its name  witness            Start
//	empty   none      none               creates a witness, and warns
//	empty   none      not empty          refuses: [ErrDamaged]
//	used    any       with this name     compares: may be [ErrDamaged]
//	used    any       none, or another   refuses: [ErrNoWitness]
//
// A used folder without its witness may be fine: the witness was lost, or the
// folder moved to another machine. But a restored backup looks the same, and
// only an operator can tell them apart. A container with an ephemeral file
// system must keep the witness on a volume.
//
// To recover, [Config.Recover] opens the folder without listening, the caller
// raises the counters, and [register.Witness.Accept] records the new state. It
// refuses counters below those of the witness. A witness that belonged to
// another folder then belongs to this folder alone.
//
// Package register documents the witness's limits. A backup with both the
// folder and the witness is not detected as older, so exclude the witness from
// backups.
package embedded
