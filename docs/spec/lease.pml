/* Lease with fence, and copies of a process: is a timestamp ever issued twice?
 * (package snowflake/lease) docs/proofs/lease.md has the argument.
 *
 * One worker ID. Its entry in the clock bucket is {hi, number of the write},
 * changed by compare-and-set. Process 0 has a hold at the beginning; at any
 * moment it may be copied with all its memory, which is process 1 from then on;
 * process 2 is any other. A process may claim at any time: the lease keeps
 * processes out of each other's way and is not part of the argument, so it is
 * not modelled.
 *
 *   claim    seek, hold.claim, reserveFrom: lo = max(hi, now), hi' = lo + a
 *            fence's length
 *   renew    renewFence: hi' = max(now + length, hi); Extend only to a known hi
 *   give     release, giveBack, lowerHi: Revoke, then hi' = last + 1
 *   arrives  ownEntry.write: bucket.update
 *   known    ownEntry.write, its answer: adopt
 *   reread   ownEntry.reread, after a refusal or an unknown outcome; it may return
 *            an old entry: untouched and behind (no conclusion), lost, or adopt
 *   late     an abandoned write arrives
 *   issue    Generator.Next: lo <= t < hi; skip: time passes
 *   ends     the process dies, or gives the worker ID up
 *
 * Abstracted: clocks. A process issues any t of its fence, in ascending order,
 * and skips any. A clock can do no more, set back or paused or wrong. So the
 * length of a fence plays no part, except with CLOCK and LOST below.
 *
 * -DBACK    Once, at any moment, the entry regresses to an older state, and its
 *           revisions continue from there, as when all of JetStream is restored
 *           under running processes (without copies). A process that has claimed
 *           then queries each other process in turn:
 *   ask      hold.checkOthers: a process that holds or claims the worker ID, or
 *            has used it from lo on, stops the claim
 *   begin    useLog.begin: a holder begins above all that it has used
 *           A claim to which another process objects ends without a write: hi
 *           stays where the claim put it.
 *           All three processes live on, unless there is a clock.
 *           A holder that finds its entry older, or missing (revision 0), is
 *           "behind" in reread: it goes on to the end of its fence, and goes on
 *           trying.
 *
 * -DCLOCK   There is a right time, now. A fence is L units long: a renewal raises
 *           hi' to now + L at most. No process issues a t that is after now, so a
 *           clock may be behind but not ahead, and MaxAhead is 0. A process may
 *           also die, and forgets what it has used. With BACK, the first write may
 *           be lost, too.
 *   claim    only an entry with hi <= now + 1, and lo = now + 1
 *   nobody   hold.reserveFrom: once all others are queried, the claimer reads the
 *   objects  clock again and begins at now + 1 or later
 *           The unit now is excluded, because a process that died may have issued
 *           in it [M_SAME].
 * -DCUT     with BACK and CLOCK: after the entry regressed, process 0 is cut off
 *           from the bucket and from process 2, but not from process 1. Process 2
 *           claims once process 0 has objected to a claim of process 1.
 * -DALONE   with CUT: process 2 claims at once, which fails. This is a hole: see
 *           "What remains" in the proof.
 *
 * -DLOST    with a clock: once, at any moment, the bucket is lost. The new one has
 *           no entry, and revisions start anew. Nothing reaches a holder any more,
 *           neither queries nor answers of the bucket, so it lives to the end of
 *           its fence. All other processes may claim at once, as if their clocks
 *           were ahead, but begin at the time that the new bucket records: the
 *           loss, WAIT units for the length of a fence, and one for the lead of a
 *           claim over the clock. Nobody is queried.
 *
 * Not here: detecting a restore by the stream's sequence, and a recreated bucket
 * (checkForward, admit.go); tests cover both.
 *
 * Property: no t is issued twice. Once there is a copy, no t from hs on: hs is
 * the highest hi known, or requested, when the copy was made. The proof promises
 * no more, and no more is possible: below hs the copy also meets third
 * processes, to which the original gave back unused time.
 * -DLATER   the copy is resumed when hs is past, with a correct clock: then no t
 *           at all comes twice.
 * Bounds: H units of time, R writes of the entry, NUM numbers drawn. L is the
 * length of a fence, 2 for a long one and 1 for a short one.
 *
 * Mutants: M_HOLD    a write counts as own if it has the hold's ID, as a copy's
 *          M_PRNG    a copy draws the same numbers
 *          M_UNKNOWN an unknown outcome counts as success
 *          M_EARLY   time is used before its write is known
 *          M_LO      a holder begins below the hi it found
 *          M_BLIND   writes have no condition
 *          M_LAST    gives back the last timestamp it used
 *          M_REVOKE  continues until the write is known
 *          with BACK: M_NOASK  no process is queried
 *                     M_FORGET a hold's end discards the record of used time
 *                     M_HI     a holder answers with the end of its time, and
 *                              not that it holds
 *          with CLOCK: M_BEFORE a claim begins at the time before its query
 *                     M_SAME   a claim begins in the unit of its clock
 *          with CUT:  M_LOWER  a claim that met an objection lowers hi again
 *          with LOST: M_SHORT  (-DWAIT=1) fences are long, the wait is short
 *                     M_FLOOR  claims begin at their clock, not at the recorded
 *                              time
 *          STRICT    no exception for a copy, which fails, so it is needed
 */
#ifndef H
#define H 3
#endif
#ifndef R
#define R 3
#endif
#ifndef NUM
#define NUM 4
#endif
#ifdef LOST
#define CLOCK
#endif
#if defined(BACK) || defined(CLOCK)
#define NOCOPY
#endif
#ifndef L
#define L 2
#endif
#ifndef WAIT
#define WAIT L
#endif
#define CLAIM 1
#define RENEW 2
#define GIVE 3
#define AGAIN 4      /* the second attempt of lowerHi */

byte ehi[R+1], enr[R+1], rev;     /* the entry at each revision */
typedef P {
  bool holds; byte nxt, hi;
  byte asked;                     /* the highest hi that a renewal requested */
  byte known; bool owned;         /* the condition of the next write, and whether that is of an own write */
  byte sent;                      /* numbers of writes that may be found */
  byte w, kind, wh, wn, wr;       /* write: 1 under way 2 done, at wr 3 refused 4 unknown 5 done, others are queried */
  byte lr, lh, ln;                /* a write given up: 1 + its condition, hi, number */
  byte used;                      /* the first t that this process has not used, after its holds */
  byte ask;                       /* processes still to query, as bits */
  bool cut;                       /* its writes do not arrive any more */
  byte own                        /* M_HOLD: the hold; M_PRNG: the state of its numbers */
}
P p[3];
byte drawn, issuer[H], hs; bool copied;
byte now, floor;                  /* CLOCK: the time; LOST: the first t that a claim may begin with */
bool went, objected;              /* CUT: the entry regressed; process 0 objected to a claim since */

#if defined(M_HOLD)
inline draw(i_) { p[i_].wn = p[i_].own }
#define MAYDRAW(i) 1
#elif defined(M_PRNG)
inline draw(i_) { p[i_].own++; p[i_].wn = p[i_].own }
#define MAYDRAW(i) (p[i].own < (i == 2 -> NUM : 4))
#else
inline draw(i_) { drawn++; p[i_].wn = drawn }
#define MAYDRAW(i) (drawn < NUM)
#endif
inline send(i_, kind_, hi_) { draw(i_); p[i_].kind = kind_; p[i_].wh = hi_; p[i_].sent = p[i_].sent | (1 << p[i_].wn); p[i_].w = 1 }
inline noWrite(i_) { p[i_].w = 0; p[i_].kind = 0; p[i_].wh = 0; p[i_].wn = 0; p[i_].wr = 0 }
#if defined(BACK) && !defined(M_FORGET)
inline remember(i_) { if :: p[i_].holds && p[i_].nxt > p[i_].used -> p[i_].used = p[i_].nxt :: else fi }
#else
inline remember(i_) { skip }
#endif
#ifdef M_HI
#define ANSWERS(j, lo) (p[j].hi > (lo) || p[j].used > (lo))
#else
#define ANSWERS(j, lo) (p[j].holds || p[j].kind == CLAIM || p[j].used > (lo))
#endif
inline over(i_) { remember(i_); p[i_].ask = 0; p[i_].cut = 0; p[i_].holds = 0; p[i_].nxt = 0; p[i_].hi = 0; p[i_].asked = 0; p[i_].known = 0; p[i_].owned = 0; p[i_].sent = 0; noWrite(i_) }
inline adopt(i_, r_, n_) { p[i_].known = r_; p[i_].owned = 1; p[i_].sent = 1 << n_ }
#if defined(BACK) && !defined(M_NOASK)
#define ASK 7
#else
#define ASK 0
#endif
#ifdef CUT
#define OTHERS(i) (ASK & ~(1 << (i)) & ((i) == 2 -> 6 : 7))
#else
#define OTHERS(i) (ASK & ~(1 << (i)))
#endif
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#ifdef M_SAME
#define TIME now
#else
#define TIME (now + 1)
#endif
#ifdef M_FLOOR
#define FLOOR 0
#else
#define FLOOR floor
#endif
inline begin(i_, hi_) {
  p[i_].hi = hi_;
  if :: p[i_].kind == CLAIM && ASK -> p[i_].ask = OTHERS(i_); p[i_].w = 5 :: else -> p[i_].holds = 1; noWrite(i_) fi }
inline written(h_, n_) { rev++; ehi[rev] = h_; enr[rev] = n_ }
#ifdef M_BLIND
#define MATCHES(c) (rev < R)
#else
#define MATCHES(c) ((c) == rev && rev < R)
#endif
#ifdef M_REVOKE
#define ISSUES(i) p[i].holds
#else
#define ISSUES(i) (p[i].holds && p[i].kind < GIVE)
#endif
#if defined(STRICT) || defined(LATER)
#define MAYISSUE(t, i) (issuer[t] == 0)
#else
#define MAYISSUE(t, i) (issuer[t] == 0 || (copied && t < hs))
#endif

#if defined(CUT) && defined(ALONE)
#define MAYCLAIM(i) (went && i != 0)
#elif defined(CUT)
#define MAYCLAIM(i) (went && i == 1 || i == 2 && objected)
#elif defined(BACK) || defined(CLOCK)
#define MAYCLAIM(i) true
#else
#define MAYCLAIM(i) (i == 2 || i == 1 && copied)
#endif

proctype process(byte i) {
  byte x;
end:
  do
#ifdef CLOCK
  :: atomic { ISSUES(i) && p[i].nxt < p[i].hi && p[i].nxt <= now ->               /* issue */
       assert(issuer[p[i].nxt] == 0); issuer[p[i].nxt] = 1; p[i].nxt++ }
  :: atomic { ISSUES(i) && p[i].nxt < p[i].hi && p[i].nxt < now -> p[i].nxt++ }   /* skip */
  :: atomic { p[i].holds || p[i].w > 0 ->                                         /* dies */
       if :: p[i].w == 1 && p[i].lr == 0 && p[i].known >= rev && !p[i].cut ->
               p[i].lr = p[i].known + 1; p[i].lh = p[i].wh; p[i].ln = p[i].wn
          :: else fi;
       over(i); p[i].used = 0 }
#else
  :: atomic { ISSUES(i) && p[i].nxt < p[i].hi ->                                  /* issue */
       assert(MAYISSUE(p[i].nxt, i)); issuer[p[i].nxt] = i + 1; p[i].nxt++ }
  :: atomic { ISSUES(i) && p[i].nxt < p[i].hi -> p[i].nxt++ }                     /* skip */
#endif
  :: atomic { MAYCLAIM(i) && !p[i].holds && p[i].w == 0 && MAYDRAW(i) ->                   /* claim, as listed */
       select(x : 0 .. rev);
#ifdef CLOCK
       if :: ehi[x] <= MAX(TIME, FLOOR) && MAX(TIME, FLOOR) < H ->
            p[i].known = x; p[i].nxt = MAX(TIME, FLOOR); p[i].nxt = MAX(p[i].nxt, ehi[x]); p[i].nxt = MAX(p[i].nxt, p[i].used);
            x = MIN(p[i].nxt + L, H); send(i, CLAIM, x)
          :: else fi; x = 0 }
#else
       if :: ehi[x] < H && p[i].used < H ->
#ifdef M_HOLD
            if :: p[i].own < NUM -> drawn++; p[i].own = drawn :: else fi;
#endif
            p[i].known = x; p[i].nxt = (ehi[x] > p[i].used -> ehi[x] : p[i].used);
#ifdef M_LO
            if :: p[i].nxt > 0 -> p[i].nxt-- :: else fi;
#endif
            send(i, CLAIM, p[i].nxt + 1)
          :: else fi; x = 0 }
#endif
  :: atomic { p[i].holds && p[i].w == 0 && MAYDRAW(i) && !p[i].cut ->             /* renew */
#ifdef CLOCK
       x = MIN(now + L, H); x = MAX(x, p[i].hi); send(i, RENEW, x); x = 0
#else
       if :: p[i].hi < H -> send(i, RENEW, p[i].hi + 1) :: send(i, RENEW, p[i].hi) fi;
       if :: p[i].wh > p[i].asked -> p[i].asked = p[i].wh :: else fi
#endif
#ifdef M_EARLY
       ; p[i].hi = p[i].wh
#endif
     }
  :: atomic { p[i].holds && p[i].w == 0 && MAYDRAW(i) && !p[i].cut ->             /* give */
#ifdef M_LAST
       x = p[i].nxt; if :: x > 0 -> x-- :: else fi; send(i, GIVE, x); x = 0
#else
       send(i, GIVE, p[i].nxt)
#endif
     }
  :: atomic { p[i].w == 1 ->                                                      /* arrives */
       if :: MATCHES(p[i].known) && !p[i].cut -> written(p[i].wh, p[i].wn); p[i].wr = rev; p[i].w = 2 :: else -> p[i].w = 3 fi }
  :: atomic { p[i].w == 2 ->                                                      /* known */
       if :: p[i].kind >= GIVE || (p[i].kind == CLAIM && p[i].wh <= p[i].nxt) -> over(i)
          :: else -> adopt(i, p[i].wr, p[i].wn); begin(i, p[i].wh) fi }
  :: atomic { p[i].w == 5 && p[i].ask == 0 ->                                     /* nobody objects */
#if defined(CLOCK) && !defined(M_BEFORE)
       p[i].nxt = MAX(p[i].nxt, TIME);
#endif
       p[i].holds = 1; noWrite(i) }
  :: atomic { p[i].w == 5 && p[i].ask > 0 ->                                      /* ask */
       x = (p[i].ask & 1 -> 0 : (p[i].ask & 2 -> 1 : 2)); p[i].ask = p[i].ask & ~(1 << x);
       if :: ANSWERS(x, p[i].nxt) ->
#ifdef CUT
             objected = objected || (x == 0 && p[0].cut);
#endif
#ifdef M_LOWER
             p[i].ask = 0; p[i].hi = 0;
             if :: MAYDRAW(i) -> send(i, GIVE, p[i].nxt) :: else -> over(i) fi
#else
             over(i)
#endif
          :: else fi; x = 0 }
  :: atomic { p[i].w == 1 || p[i].w == 2 ->
       if :: p[i].w == 1 && p[i].lr == 0 && p[i].known >= rev -> p[i].lr = p[i].known + 1; p[i].lh = p[i].wh; p[i].ln = p[i].wn
          :: p[i].w == 2 || p[i].lr > 0 || p[i].known < rev -> skip fi;
#ifdef M_UNKNOWN
       if :: p[i].kind >= GIVE -> over(i) :: else -> p[i].holds = 1; p[i].hi = p[i].wh; noWrite(i) fi
#else
       p[i].w = 4; p[i].wr = 0
#endif
     }
  :: atomic { p[i].lr > 0 && (p[i].lr - 1 != rev || rev == R) -> p[i].lr = 0; p[i].lh = 0; p[i].ln = 0 }
  :: atomic { p[i].lr > 0 && p[i].lr - 1 == rev && rev < R -> written(p[i].lh, p[i].ln); p[i].lr = 0; p[i].lh = 0; p[i].ln = 0 }   /* late */
  :: atomic { (p[i].w == 3 || p[i].w == 4) -> select(x : 0 .. rev);                                 /* reread */
       if
       :: !p[i].owned && x <= p[i].known ->                                       /* untouched */
            if :: p[i].w == 4 && p[i].kind == CLAIM && MAYDRAW(i) -> send(i, GIVE, p[i].nxt)   /* claim: giveBack(lo) */
               :: else -> over(i) fi
       :: p[i].owned && x < p[i].known ->                                         /* behind */
            if :: p[i].kind >= GIVE -> over(i) :: else -> noWrite(i) fi
       :: (!p[i].owned && x > p[i].known || p[i].owned && x >= p[i].known) && !(p[i].sent & (1 << enr[x])) -> over(i)   /* lost */
       :: else ->                                                                 /* adopt */
            adopt(i, x, enr[x]);
            if
            :: p[i].kind == GIVE && ehi[x] != p[i].wh && MAYDRAW(i) -> send(i, AGAIN, p[i].wh)
            :: p[i].kind == GIVE && (ehi[x] == p[i].wh || !MAYDRAW(i)) || p[i].kind == AGAIN -> over(i)
            :: p[i].kind < GIVE -> begin(i, ehi[x])
            fi
       fi; x = 0 }
  :: atomic { p[i].holds -> over(i) }                                             /* ends */
  od
}

#define HIGHER(a) hs = ((a) > hs -> (a) : hs)
proctype copy() {
end:
  atomic { p[0].holds ->
    copied = 1; hs = p[0].hi;
    HIGHER(p[0].asked);
    p[1].holds = 1; p[1].nxt = p[0].nxt; p[1].hi = p[0].hi; p[1].known = p[0].known; p[1].owned = p[0].owned;
    p[1].sent = p[0].sent; p[1].own = p[0].own; p[1].asked = p[0].asked; p[1].kind = p[0].kind; p[1].wh = p[0].wh; p[1].wn = p[0].wn;
    if :: p[0].w > 0 -> p[1].w = 4 :: else fi;       /* its connection is the original's: no answer comes */
#ifdef LATER
    if :: p[1].nxt < hs -> p[1].nxt = hs :: else fi
#endif
  }
}

inline revert() { ehi[rev] = 0; enr[rev] = 0; rev-- }
proctype back() {
end:
#ifdef CLOCK
  atomic { rev > 0 -> revert(); if :: rev > 0 -> revert() :: true fi;
#ifdef CUT
    went = 1; p[0].cut = p[0].holds; p[0].lr = 0; p[0].lh = 0; p[0].ln = 0
#endif
  }
#else
  atomic { rev > 1 -> revert(); if :: rev > 1 -> revert() :: true fi }
#endif
}

proctype clock() {
end:
  do :: atomic { now < H - 1 -> now++ } od
}

inline apart(i_) {
  p[i_].lr = 0; p[i_].lh = 0; p[i_].ln = 0;
  if :: p[i_].w > 0 && p[i_].kind == RENEW -> noWrite(i_) :: p[i_].w > 0 && p[i_].kind != RENEW -> over(i_) :: else fi;
  p[i_].cut = p[i_].holds
}
proctype loss() {
end:
  atomic { rev > 0 -> do :: rev > 0 -> revert() :: else -> break od; floor = now + 1 + WAIT; apart(0); apart(1); apart(2) }
}

init { atomic {
#ifdef CLOCK
#define FIRST L
#else
#define FIRST 1
#endif
  rev = 1; ehi[1] = FIRST; p[0].holds = 1; p[0].hi = FIRST; p[0].known = 1; p[0].owned = 1;
#if defined(M_HOLD)
  drawn = 1; p[0].own = 1; enr[1] = 1; p[0].sent = 2;
#elif defined(M_PRNG)
  p[2].own = 4; enr[1] = 1; p[0].sent = 2; p[0].own = 1;
#else
  drawn = 1; enr[1] = 1; p[0].sent = 2;
#endif
  run process(0); run process(1); run process(2);
#ifndef NOCOPY
  run copy();
#endif
#ifdef BACK
  run back();
#endif
#ifdef CLOCK
  run clock();
#endif
#ifdef LOST
  run loss()
#endif
} }
