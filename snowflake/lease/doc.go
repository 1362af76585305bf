// Package lease gives a process a worker ID for snowflake IDs, and takes care that
// no two processes ever make the same ID with it.
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
// Everything is in three KV buckets:
//
//	<prefix>_workers  TTL      worker ID → who leases it, since when, their clock
//	<prefix>_clock    no TTL   worker ID → hi: all time below has been given away
//	<prefix>_config   no TTL   layout, and which clock bucket it belongs to
//
// # What makes IDs unique
//
// The clock bucket does, alone. Its entries are changed only by compare-and-set, so
// the changes of one entry form a chain, in which each was made by a holder that
// knew the one before. A holder of a worker ID
//
//   - begins with a change from hi to a higher hi': it owns the time from
//     max(hi, now) up to hi', and issues t only if it lies there;
//   - goes on with further changes, each on top of its own last one. Once somebody
//     else has made one, it cannot make any more;
//   - uses the time up to hi' only once it knows that the change was made: from the
//     answer, or, if that was lost, because it reads its own mark in the entry;
//   - ends, if it can, with hi back at the first timestamp that it did not use,
//     after the generator was revoked for good.
//
// So what successive holders own does not overlap, whatever their clocks say,
// however long one of them is paused, at whichever point, and whether or not the
// lease is still theirs. A read may be old, for what it shows was true once: a
// holder that sees its own mark owns what is written there.
//
// What this cannot know is whether the bucket itself went back in time or started
// anew. So Open refuses a bucket that is configured to forget, and one that is not
// the one which the config bucket names (ErrClockLost). The rest is up to whoever
// runs it: sync_interval: always on the server, and no restored backups.
//
// # What the lease is for
//
// To keep processes out of each other's way. Its TTL decides when the worker ID of a
// process that died can be used again, and nothing else.
//
//	             a free one is claimed
//	  ┌─────────┐ ─────────────────────────────▶ ┌──────┐ ─┐ every TTL/3:
//	  │ seeking │                                │ held │  │ lease written, clock
//	  └─────────┘ ◀───────────────────────────── └──────┘ ◀┘ compared, hi raised
//	   │  ▲   │    lost: revoke,                    │
//	   └──┘   │    give back what is still ours     │ stopped: revoke, give back
//	none free │                                     ▼
//	or error, │ stopped                       ┌─────────┐
//	try again └─────────────────────────────▶ │ stopped │
//	                                          └─────────┘
//
// Seeking. The config is checked, then the clock, then both buckets are listed, once.
// A worker ID is free if nobody leases it and its hi is not further ahead of the
// clock than the generator may be; the ones whose hi is in the past come first,
// and of those a random one, so that many who start at once do not collide.
// Two writes claim it, each on condition that the entry is as it was listed: the
// lease, then hi. If one fails, the next free one is tried.
//
// Held. hi is raised to the present time plus the TTL, so that the time a holder may
// use and its lease end together: with JetStream away it serves on for at least two
// thirds of the TTL, and at most all of it. A longer reach would make whoever
// takes over the worker ID of a process that crashed wait for its clock to get there;
// this one costs nothing, since until then the lease is in the way anyhow. What
// fails is tried again after TTL/30.
//
// Lost. If the entry of the lease or of hi is gone or somebody else's, if nothing
// succeeded for a TTL, or if the clock is off, the generator is revoked at once, and
// then whoever runs the Manager is told. It goes on to seek another worker ID.
//
// Stopped. The generator is revoked, hi is set to the last timestamp used plus 1, and
// the lease is deleted, both by compare-and-set: a successor can have the worker ID
// at once.
//
// # Answers that are lost
//
// After any error of a write the entry is read. If it has this holder's mark, the
// holder goes on from there, whether that is the write just made or the one before it;
// if it has somebody else's, or is gone, the worker ID is lost. If it cannot be read
// either, nothing is assumed. A write that arrives later than that changes nothing
// that was said above: it is either refused, or raises hi by what nobody will use.
//
// # The clock
//
// Uniqueness needs no right clock, but IDs are to sort by time. So the clock is
// compared with the server's and with those of the other workers, which are in
// their leases. At a claim, both have to be within MaxClockSkew. While a worker ID is
// held, two others or more that agree with this clock outweigh the server, whose
// clock may be the one that is off; otherwise the worker ID is given up.
// A clock that is off by more than that for the time of one heartbeat is not noticed.
package lease
