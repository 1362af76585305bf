// Package ownership gives each slot of the strict tags one owner at a time: the process that
// answers all requests for the tags of that slot.
//
//	o, err := ownership.Open(ctx, ownership.Config{JS: js, Instance: instance, Began: drop, Ended: drop})
//	err = o.Start(ctx)             // this process has a lease now
//	slot := ownership.Slot(tag)
//	if epoch, ok := o.Term(slot); ok {
//		id := take()               // from what was asked for since that term began
//		if o.Valid(slot, epoch) {  // looked at with the ID in hand
//			reply(id)
//		}
//	} else if owner, known := o.Owner(slot); known {
//		forward(owner)
//	} else {
//		o.Want(slot)               // and park the request until Changed
//	}
//
// A tag's slot is a hash of its name, one of 256. Everything is in the bucket <prefix>_owners, whose
// entries do not expire:
//
//	lease.<place>  who has the place, in which life of it, and how far it has acted upon the rules
//	slot.<n>       the lease of the slot's owner, and the epoch; or that it was handed over, and to whom
//	identity       a random number, by which a bucket that was made again is known
//
// # What is where
//
//	keep.go    the lease: claimed, renewed, lost, given up; cell.go writes and rereads its entry
//	follow.go  the bucket is read, and view.go is what it says
//	decide.go  what to do next: leases to end, slots to take and to hand over; act.go does it
//	shares.go  who is to have which slot
//	terms.go   what this process owns, and until when; read without a lock
//	clock.go   the clock, and the margin
//	leases.go  what others may know of processes, and may say of them
//
// # What makes it one owner at a time
//
// T is the lease time. All writes are compare-and-set on a revision that was read or written.
//
//   - A lease is one life of a place. A process claims a place whose lease has ended, or a new one, by
//     writing the next life; lives only go up, so no identity is ever used twice. It renews the
//     lease every T/3, or more rarely. No life is higher than the revision at which it is written. So what a deleted entry
//     said need not be known: the lease is ended as the life that has the number of the deletion.
//   - An entry that cannot be read counts as one that was deleted by hand: whoever it was of may answer for
//     a T.
//   - An owner answers only while its own clock is before the start of its last renewal that is known
//     to be done, plus T, less the margin. The start, because the renewal may have been stored at once
//     and its answer may have taken long. Valid looks at that clock after the ID was taken, so
//     it does not matter how long the process was paused before. How long the reply takes after that
//     does not matter either: the ID was above all that had been received at the moment of the look.
//   - Another process ends a lease, by a write that says so, only after it has known the same revision
//     for a whole T on its own clock, or for longer, see below on rest, counted from when it had arrived. That the feed shows it is as good
//     as the answer to a read: in both cases the write had been made before the time began to count. A
//     feed that lags makes the write fail. A process's T is in its lease, so processes may have different ones.
//   - Only what was read proves that a lease is over: its place says that it has ended, or is in a later
//     life. Both stay true, so an old entry cannot prove it. That the entry of a lease is not found proves
//     nothing: it may be on its way.
//   - A slot is taken by a write on that very revision of the slot that names a lease that is over, or
//     nobody. It raises the epoch, by the same process too. The term begins when that write is known
//     to be done, which only its answer says. Who finds its own name there otherwise takes the slot again.
//   - A term belongs to the lease under which it was taken. When the lease is over, all terms are,
//     before there is another lease; and a slot that was taken under it, of which that becomes known later,
//     gives no term.
//   - A slot is handed over in this order: the term ends, so Valid is false, and then the write is
//     sent. So is a lease at a stop: all terms end, and then one write frees all slots.
//
// So, when a process answers, its lease had not ended when the last renewal was stored; nobody ends that lease
// before T after that; and until then nobody takes its slots, and it has not handed this one over.
// Terms of a slot therefore never overlap. A new owner drops what it had, before Term knows of the
// new term, and asks the store anew; so it starts above all that any owner before it was granted.
//
// A lease that has run out, and that nobody has ended, may be renewed: nobody can have taken a slot of it.
// Its terms go on, with their epochs. So an outage of JetStream moves no slots: whoever comes back first gives the
// others time again, since their silence said no more than its own.
//
// No clocks are compared, and no server's clock or expiry is trusted. What remains to be trusted is that clocks
// run at nearly the same rate, also while a machine is suspended.
//
// # The margin
//
// Say an owner's clock loses r, and a contender's gains r. The owner answers for V on its clock,
// which is V/(1−r); the contender waits for T, which is T/(1+r). V has to be at most T·(1−r)/(1+r). With
// a margin of T/6 that holds for r up to 9 %. Clocks of machines differ by 0.01 %, and ntpd slews them by
// 0.05 %; but chrony, which is what most systems have, slews by up to 8.3 % when it corrects an offset,
// and that is what CLOCK_BOOTTIME then does too.
//
// The margin also covers that a virtual machine is stopped for less than T/6 (0.7 s) without its clock
// going on, as in a live migration. If it stands still for longer, as when a snapshot of memory is
// taken and its hypervisor does not tell the machine, the owner believes that it has time left when another one
// has taken over. Nothing in the machine can see that. Such machines must not serve strict tags.
//
// # Lost answers, and copies
//
// Every write carries a fresh random number. After a renewal whose answer is lost, the entry is read. If it has
// the number of a write that this process has sent, that one is known to be done, from its own
// start. If it has another number, the lease is over, even if all else is as this process would have written it:
// a copy of the process has written it (see package lease on copies). Copies may both answer until T less
// the margin after the last renewal that they have in common.
//
// # Leases that have ended
//
// Places are used again, so there are about as many as there were processes at one time, at most twice
// that. A process that stops says so, and its place is free. A place whose lease was ended by others is
// kept, up to 16 of them, the latest: for the process may not be dead. If it is alive it notices,
// by the feed or at its next renewal, and claims a new life of that place, if it is still there. A slot
// that names a lease that is over is free, whether it is still in the bucket or its place is in a later life.
//
// # What is known of processes
//
// Each lease says which revision of the rules its process has acted upon. Whoever makes a tag strict waits for
// all of them. What can be known:
//
//   - A process with a lease has acted, or has not.
//   - A lease that its own process has ended is not listed: that process answers nothing more.
//   - A lease that others have ended ([Lease.Lost]) proves nothing. Its process may have crashed; or it is paused,
//     or cut off from JetStream, and answers requests for ordinary tags from memory, as it should, with the
//     rules that it knew. A tag that is new makes no difference: the process may see that there is one
//     before it sees that it is strict, or remember one of that name that was removed. So
//     it has to come back and act, or an operator has to say that it is gone. That is recorded in the lease
//     ([DeclareEnded]), whose place is free from then on. If the process is not gone after all, it finds its
//     lease over, as it would have anyway.
//   - Beyond the 16 latest, those that were ended by others are forgotten.
//
// A process has to have its lease before it reads the rules, and to have read them before it answers. Otherwise a
// command that lists the leases in between does not know of it.
//
// # Sharing out
//
// A slot that has never had an owner is taken by whoever is asked for it. From then on it is in use, and
// always has an owner if there is a living process. All processes compute from the same bucket who is to have which
// slot in use: everybody as many as everybody else, or one more, and nobody gives up more than that takes.
// Whoever is to have a slot that is free takes it at once. If it does not, the others do, after T/32 and more,
// each key having its own order among them; and it gets nothing for a while. Who has too many slots hands them over one
// by one: the next one when the last one is taken.
//
// There are three writes for each process in a lease time, however many slots are in use, and all processes are
// told of them. So with W processes there are 0.75 W² messages a second or a little more, and this is what limits
// how many processes there may be, unless they rest.
//
// # Rest
//
// While no tag is strict, by the rules that it has acted upon, a process rests: it takes no slot, lets go those that
// it has, and once the bucket names it nowhere it renews its lease only three to six times in five minutes, each process at times of its own. Its entry says so, by how
// long it may be silent. What else it says of T is as before. Rest has no part in the order of IDs:
//
//   - Valid counts T from the start of a renewal, whatever the entry says of rest. So a process at rest could not
//     answer for most of the time, if it had a slot.
//   - Whoever waits for a process at rest waits for its T or longer. Waiting longer is always safe.
//   - A slot is let go as it is handed over, but to nobody: the term ends first. From then on it is as if it had never been in
//     use, but for its epoch, which goes on: it is taken by whoever is asked for it, without delay.
//   - Two more times are counted in this process's own T: an entry of a slot that was deleted by hand, and a bucket that was made
//     again, let it take a slot only T later. Both are about how long an owner may answer, and rest does not
//     change that.
//   - That an entry is missing proves nothing, at rest or not.
//
// When the first tag becomes strict, every process renews at once, with what it has acted upon, as at every change of the
// rules. It looks at the rules before it looks whether it may rest. So no entry says both that
// its process has acted upon that rule and that it rests: once all have acted, all renew often. A process that is asked for
// a slot and finds that it rests renews first, and takes the slot when that is known to be done.
//
// A process that dies at rest is noticed after five minutes by others at rest: each looks after its own renewals. That
// leaves nothing without an owner, for it owned nothing. Whoever does not rest waits for it only for 2 T, counted from
// when itself began to, if that is later: by then a living process has acted upon the rule and said so. One that has not,
// because it does not get the rules, loses its lease and claims another one. Until it is over, nothing is
// shared out to a process at rest, nor is it in any line of those who are to take a slot, so nobody waits for it there.
//
// What a process takes for an outage, after which the others' silence says no more than its own, is
// silence of its own for longer than its lease allows, less the margin. At rest that is not T: its validity passes before each
// renewal, and if that counted, nobody would ever be found dead.
//
// # Many that start at once
//
// All read the same bucket and claim places in it. They choose among all that were given up, or else among 64 new ones,
// then 512, then 4,096, so few meet at one place. Reading a bucket and claiming a place take as long as the server needs
// when thousands of calls wait for it. A call that is given up is asked again, and adds to what waits. So these
// get twice the time after each failure, up to 2 T. Calls that T depends on do not: renewals, and writes of slots.
//
// # A bucket that was made again
//
// In an empty bucket no slot has an owner, but owners of before may still answer. The installation's config names
// the identity of the bucket that was first. In any other one, slots without an entry are taken only by who has
// read that bucket for T: by then the time of all leases of before is up, for they cannot be renewed. Whoever finds the bucket
// to be another one makes a new lease. So the bucket may be made again whenever it is lost; IDs are unique whatever
// is in it. What is not noticed is a bucket that went back to an older state, as one restored from a backup: strict
// tags may be out of order for T if it is restored while processes run.
package ownership
