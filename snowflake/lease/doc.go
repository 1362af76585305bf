// Package lease gives a process a worker ID for snowflake IDs, and makes sure that no two
// processes ever make the same ID with it.
//
//	m, err := lease.Open(ctx, lease.Config{JS: js, Layout: snowflake.Default()})
//	err = m.Run(ctx, func(s lease.State) {
//		if s.Generator != nil {
//			// join: s.Generator makes IDs with worker ID s.Worker
//		} else {
//			// leave: there is no worker ID, and s.Err says why
//		}
//	})
//
// A hold is one process's period of having a worker ID, from claim to release. Its lease
// keeps other processes off the worker ID; its fence is the time that it owns, and may
// issue IDs in. Everything is in three KV buckets:
//
//	<prefix>_workers  TTL      worker ID → its lease: who holds it, since when, their clock
//	<prefix>_clock    no TTL   worker ID → hi: all time below has been given away
//	<prefix>_config   no TTL   layout, and the identity of the clock bucket
//
// # What is where
//
//	manager.go   a process without a worker ID seeks one, keeps it, reports what happens
//	admit.go     what has to be right before a claim: layout, clock bucket, clock
//	seek.go      a free worker ID is chosen
//	given.go     or the one that was given, once nobody else has it
//	hold.go      it is claimed, renewed with heartbeats, and lost (renewUntilLost)
//	others.go    all other processes are asked whether they use it
//	release.go   what was not used is given back
//	entry.go     one entry of a hold is written, and reread when the answer is lost
//	identity.go  is the clock bucket the installation's, and did it go back?
//	clock.go     the clock is read and compared, and when it is off
//	bucket.go    the buckets, and what their server is asked
//
// # What makes IDs unique
//
// The clock bucket alone does. Its entries are changed only by compare-and-set, so
// the changes of one entry form a chain, in which each was made by a holder that
// knew the one before. A holder of a worker ID
//
//   - begins with a change from hi to a higher hi': it owns the time from
//     max(hi, now) up to hi', and issues IDs with timestamp t only if t lies there;
//   - goes on with further changes, each on top of its own last one. Once somebody
//     else has made one, it cannot make any more;
//   - uses the time up to hi' only once it knows that the change was made: from the
//     answer or, if that was lost, because it reads in the entry the random number of a
//     write that this very process has sent;
//   - ends, if it can, by setting hi back to the first timestamp that it did not use,
//     after the generator was revoked for good.
//
// So the fences of successive holds do not overlap, whatever their clocks say, however
// long one of them is paused, at whichever point, and whether or not the lease is still
// theirs. A read may be stale, but what it shows was true once: a holder that sees the
// number of its own write owns what is written there.
//
// # Copies of a process
//
// A snapshot of a virtual machine or of a process (CRIU) that is resumed beside the original
// is a second holder with all the memory of the first: the same hold, the same revisions.
// Each of the two may write next, and only one can: the other's condition fails. What it finds
// then has its own hold's ID, but the number of a write that it never sent, so it gets ErrLost.
// Every write carries such a number, fresh, 128 bits, and a process remembers those it has sent
// since the last write that it knows to be made.
//
// What remains: until that moment neither knows of the other, and both own the time up to the
// hi that was known, or asked for, when the copy was made. So a timestamp is used twice only if
// it lies below that hi, which is at most a fence's length, and MaxAhead, after the copy was made. A copy
// that is resumed later than that, with a clock that is right, as one is that comes from a
// stored snapshot, makes no ID twice. If its clock stands where it stood at the snapshot, it makes them until
// the system's clock is set right: a jump of that by more than two seconds stops the generator until a heartbeat
// has succeeded that began after it. The numbers must differ too: a copy draws other ones
// because they come from the kernel, and not from memory of the process. If the kernel was
// copied along, as with a virtual machine, it has to have been reseeded before the next
// heartbeat, which Linux does at once where the hypervisor tells it (vmgenid).
//
// # A bucket that forgot
//
// The argument also needs a bucket that does not forget. Open refuses one that is configured
// to. Beyond that, there is evidence:
//
//   - It was made a second time. The first worker writes a random number into it, the
//     identity, and the config bucket names the one that is the installation's. A claim
//     needs the two to agree, both before and after its write. A heartbeat needs no look,
//     since the entry that it changes is not in another bucket.
//   - It went back to an older state, as a restored backup does, or a server that lost its
//     last writes. Each lease names a sequence that the bucket's stream had reached. A claim
//     is refused while a stream ends below what any lease names, and a heartbeat fails if
//     it ends below what the holder knows. If the stream has grown past that meanwhile, a
//     holder still finds its entry older than it was, or a write accepted at a sequence that
//     had been reached before.
//
// Either way the error is ErrClockLost, and the generator is revoked. In another bucket nobody
// claims anything until an operator decides (ClockLostError says how). In one that went back,
// a process that noticed waits until the time that was forgotten is past: no fence reaches
// further than its length, MaxAhead, and MaxClockSkew twice, beyond the moment at which it was
// written. Then it goes on by itself, since what an entry says about the past does not matter.
// Holders may have fences of different lengths, since they have different TTLs, see below. So
// the longest one counts that this process had or that a lease names.
//
// # All of JetStream went back
//
// If leases and clocks are restored together, under running processes, the buckets contradict
// nothing. Only the processes remember, so their memory counts (others.go, uses):
//
//   - A process remembers the highest sequence of the clock bucket in all its life, and each
//     worker ID that it held, up to its last timestamp. No claim of its own begins below that.
//   - Who has claimed a worker ID asks all processes that run on <prefix>.holds, before it makes the first ID. One that
//     holds it, claims it, or used it from there on, answers, and the claim is given back. The claimer has to hear its own
//     answer too, so it knows that its question got to the server. It asks twice in a second, for
//     those whose connection was just lost, as when the server was restarted with old data.
//   - A holder whose connection was lost begins a heartbeat when it is back; if one is under way, when
//     that has failed, after 5 s at most. If somebody has its worker ID by then, it finds out: it reads
//     the entry first, which may have got the very revision again that its own one had.
//
// What remains, after such a restore:
//
//   - A process that cannot be reached in that second, because it is cut off from NATS, or was paused, may hold
//     the worker ID that another one claims. It goes on until it is back and its first heartbeat is
//     answered: until then, or for a fence's length at most, both may make IDs with the same timestamps.
//     If its connection was not lost, as when it was paused, and the other's entries happen to have the
//     revisions that its own ones had, the other one finds out instead, at its next heartbeat.
//   - What was made ahead of the clock by a process that is dead by now, only a process that has lived on knows of, and
//     waits. One that starts in this time begins at its own clock, which may be that much too early.
//
// A restore while nothing has run for longer than the wait above is not noticed, and does no harm.
//
// # What the lease is for
//
// It keeps processes out of each other's way. Uniqueness does not need it, and a holder whose
// lease has expired goes on, as long as its fence reaches.
//
//	             a free one is claimed
//	  ┌─────────┐ ─────────────────────────────▶ ┌──────┐ ─┐ every TTL/3:
//	  │ seeking │                                │ held │  │ lease written, clock
//	  └─────────┘ ◀───────────────────────────── └──────┘ ◀┘ compared, hi raised
//	   │  ▲   │    lost: revoke,                    │    or made again
//	   └──┘   │    give back what is still ours     │ stopped: revoke, give back
//	none free │                                     ▼
//	or error, │ stopped                       ┌─────────┐
//	try again └─────────────────────────────▶ │ stopped │
//	                                          └─────────┘
//
// Seeking. The config is checked, then the clock bucket's identity, the clock, and whether
// that bucket went back; then both buckets are listed. A list is waited for as long as entries
// come, however many there are. A worker ID is free if nobody leases it and its hi is no further
// ahead of the clock than the generator may be. Of the free ones, the choice is in this order:
//
//   - The one that this process had last. A process that was restarted has a new name and
//     nothing to know its own by, and needs none: which worker ID it has does not matter.
//   - One that was used, that is, one with an entry in the clock bucket: first those whose hi is
//     in the past. So a new entry is made only when every used worker ID is taken, and the
//     bucket has as many as were ever taken at one time. One is taken while it is leased, or its
//     hi is too far ahead, as after a crash, until the fence is past.
//   - A new one.
//
// Among equals one is picked at random, so that many processes that start at once do not all
// pick the same. Two writes claim it, each on condition that the entry is as it was listed: the
// lease, then hi. If that condition fails, somebody else was faster, and another one is picked. After a few
// such failures all is looked at again, a moment later: the lists were made when others had not claimed yet, or
// not given back, and to try all that they show would be a try per process and worker ID. A write that
// fails otherwise, and was not made, says nothing of others: the bucket may be full. That is reported, and so are
// ten rounds in which others were faster. Then the process goes on seeking at longer and longer intervals,
// up to TTL/6. A claim holds no more
// than one lease at a time, so if there are as many used worker IDs as processes, each process
// finds one that is free.
//
// The TTL is that of the bucket of leases at the moment of the claim. If it is changed later, a
// holder goes on with the old one. If it became shorter than the time between two heartbeats, the
// lease is gone at the next one: the worker ID is lost, and claimed again with the new TTL.
//
// Given. If the worker ID is given (Config.Worker), as a StatefulSet gives each of its processes a number, that
// one is claimed and no other. All else is as with any: the same two writes claim it, with the same
// conditions. So that it is given to two processes by mistake, or to a process whose predecessor
// still runs, makes no ID twice. While somebody leases it, it is not claimed. Either that process
// died, as when one was killed and is started again at once: then its lease expires after the TTL, its fence is past
// then or soon, and the worker ID is claimed. Or it lives and renews its lease: after the
// second renewal Run gives up. The first may have been on its way when its sender died, but who sends the
// second knows of the first. That is after two heartbeats, two thirds of the TTL.
//
// Held. hi is raised to the present time plus a fence's length: the TTL, or 15 s if the TTL is
// shorter. So with JetStream away, a holder serves on for at least that less a third of the TTL,
// and at most all of it. As far as the TTL costs nothing: until then the lease is in the way of
// others anyhow. With a short TTL the fence reaches further, because JetStream needs 4 to 9
// seconds to elect another leader for a bucket, and a holder must not run out of time meanwhile.
// The price is that the worker ID of a process that died can be used again after those 15 s, not
// after the TTL. That makes nobody wait unless every other one is taken too.
// After a claim, others are asked for a second. A heartbeat that fails is tried again after TTL/30. The time between two heartbeats is random, up to a tenth less than TTL/3, so that
// the heartbeats of holders that began together do not stay together.
//
// Made again. If no heartbeat succeeded for the TTL, the lease has expired, though the fence may
// reach further. Nobody else claims the worker ID meanwhile, unless the end of the fence is
// within MaxAhead. So the holder keeps it, in this order: it finds that the lease is gone; it
// raises hi, by compare-and-set on its own last write, as in every heartbeat; it makes the lease,
// on condition that there is none. The second step shows that no hold began since, even one
// that has ended again. Had it a new lease before, it would be in the way of that other holder,
// or of a copy of itself. If the second step finds another's write, or the third another's lease
// or the marker of one that was deleted, the worker ID is lost. A lease that is gone before
// it can have expired is not made again: somebody deleted it, or the bucket has a shorter TTL.
//
// Whether the lease is gone, only the leader says, by refusing a write. That a read finds nothing
// proves nothing: a server that was paused lets entries expire whose renewal it has yet to see.
//
// Lost. If the entry of the lease (but see above) or of hi is gone or somebody else's, if no
// heartbeat succeeded for a fence's length, or if the clock is off, the generator is revoked at once. Then
// the function given to Run is told, and the Manager seeks a worker ID. If the entry was just
// gone, or the clock is off, what is left is given back first, as at a stop: nobody else is known
// to have the fence, and if somebody does, the condition of the write fails. Otherwise the time
// that nobody uses would keep the worker ID from being claimed.
//
// Stopped. The generator is revoked, hi is set to the last timestamp used plus 1, and
// the lease is deleted, both by compare-and-set: a successor can have the worker ID
// at once.
//
// # Lost answers
//
// After any error of a write, be it a refusal or a lost answer, the entry is read. If it has
// the number of a write that this process has sent, the hold goes on from there, whether that
// is the write just made or one before it. If it has another number, the worker ID is lost. If it
// is gone, or a claim finds it as it was listed, the worker ID is lost if the write was refused
// because of its condition. If it was not, if the entry cannot be read either, or if what was read
// is older than what is known, nothing is assumed. A write that arrives later changes nothing in this argument: it is either
// refused, or raises hi by time that nobody will use.
//
// # The clock
//
// Uniqueness needs no right clock, but IDs are to sort by time. So the clock is
// compared with the server's and with those of the other workers, which are in
// their leases. At a claim, it has to be within MaxClockSkew of both. While a worker ID
// is held, two or more others that agree with this clock outweigh the server, whose
// clock may be the wrong one; otherwise the worker ID is given up.
// A clock that is off by more than that for less than one heartbeat goes unnoticed.
package lease
