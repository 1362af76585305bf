// Package embedded is a NATS server inside this process, for installations that have no
// server of their own.
//
// What idworker promises rests on three things here:
//
//   - Every write is on disk before it is acknowledged. An acknowledged range must
//     survive a power cut, or it would be handed out again. Start checks that the server
//     does so.
//   - The data folder is locked. Two servers on one folder would both hand out the same
//     numbers.
//   - A folder that has lost what it held is not served from: one whose files are damaged,
//     for the server starts with what it can read, and one that was put back to an older
//     state, be it by a backup or a snapshot. The numbers that were handed out since would be
//     handed out again. So a witness, a file of store/register, notes how far every key was
//     seen. Start first starts the server for this process alone and compares; only then does
//     it listen, because workers elsewhere would not wait for that.
//
// After a write that failed, as on a full disk, a NATS server never writes to that stream again. So
// [Server.Guard] then ends once there is room, and the process with it: the start is where the data is
// compared. Until then workers live on what they have in memory, and [Server.Trouble] says why.
// JetStream could be enabled again in place, but then nothing would be compared.
//
// # Where the witness is
//
// Beside the data folder by default, not in it: what is in the folder goes back with it. Folder
// and witness carry the same random name, so that each knows the other.
//
//	folder  name in it  witness                 what Start does
//	empty   none        none                    new installation: it makes a witness, and warns
//	empty   none        has seen something      refuses, [ErrDamaged]: all is gone
//	used    as its      as the folder's         compares; what went back is [ErrDamaged]
//	used    any         none, or another's      refuses, [ErrNoWitness]
//
// A used folder without its witness is refused although nothing need be wrong: the
// witness was lost, or the folder was copied to another machine, which is just what a restored
// backup looks like. Nobody but an operator can know which. A container whose own file system
// is new each time has to keep the witness on a volume too.
//
// How service goes on after a refusal: [Config.Recover] opens the folder without listening, the
// counters are raised, and [Server.Renew] makes what is there then the state that the witness
// knows. It refuses counters that are still lower than it saw. The witness of another folder is
// this one's after that, and the other folder has none.
//
// What the witness cannot see is said in its package. Besides: a backup that has the folder and
// the witness in it, both of one moment, looks like nothing happened. So a backup should not
// have the witness in it; then restoring it is noticed.
package embedded
