/* Owners of strict tags: does a slot that names a process's lease give the order that is promised?
 *
 * The bucket ids_owners, as two compare-and-set registers:
 *   a lease   one for each identity of a process: absent, live, ended. Written by its process
 *             (created, renewed, ended at a clean stop) and by whoever ends it.
 *   a slot    {lease, epoch}. One slot is enough: what happens to one changes neither a lease nor
 *             another slot.
 *
 * Run:  ./run.sh            the protocol, and every mutant, with what is expected of each
 *       spin -DFENCE -DM_HAND -a owners.pml && cc -O2 -DCOLLAPSE -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * What is abstracted
 *   Time    Of each process only elapsed times are known: o since the START of its last lease write
 *           known to be done, lp since the start of the one under way, c since its first sight of the
 *           other's present revision (after the answer), x what the other clock did since. While one
 *           clock goes on by c <= T, the other goes on by at least c - M. Nothing else is known.
 *   Reads   A write names the revision that its sender read, and is refused if that is not the current
 *           one when it arrives. So an old read leads to a refusal, and every write here begins with
 *           the current revision. Where an old read does more, the mutant has a variable for it.
 *   Writes  are known late or never, and a slot's arrives even after its sender left the identity it
 *           names. A renewal that arrives after it was given up makes a contender wait longer, no more,
 *           and is left out.
 *   Loads   are asked (with the epoch), reserved, granted: each some time later, or never. IDs of
 *           the store only rise.
 *   Callers A request is sent just before somebody takes it up (sent earlier, its ID has to be above
 *           less), and its reply is received at once (received later, others have to be above less).
 *           Two requests are at fault at a time, one after the other, so one at a time is enough.
 *   Rest    A process that renews rarely is not valid for most of the time, and is waited for longer than T.
 *           Both are here already: a renewal may come at any time or never, and so may whoever ends a
 *           lease, once c >= T. A slot that is let go is handed over to NOBODY. M_REST answers for as
 *           long as the entry of a process at rest lets it be silent.
 *   A process leaves an identity at any time, as one that restarts does. A lease that was left may be
 *   ended at any time: nobody answers under it.
 *
 * Property  an ID is above all IDs that were received before its request was sent.
 * -DFENCE   instead of IDs: whoever would pass the look now is named in the slot, with its epoch.
 *
 * Mutants   M_MARGIN0  V is T, one tick too much        M_REST  V is longer than T
 *           M_STAMP    o counts from the answer     M_SIGHT     c counts from the sending of a read, which took T
 *           M_SUSPEND  a clock may stand still      M_NOEND     takes the slot of a lease seen for T, not ended
 *           M_ABSENT   a lease not found has ended (the read was old)
 *           M_SAMEID   a lease is made again under the identity that was ended; "ended" is remembered
 *           M_KEEPTERM terms outlive the identity   M_LATESLOT  a slot written under an old identity counts
 *           M_REREAD   after a mismatch: the slot's new revision, the lease it named before
 *           M_ADOPT    whoever reads its own lease in the slot is the owner
 *           M_SAMEEPOCH a taking does not raise the epoch
 *           M_HAND     hands the slot over, stops answering at the answer
 *           M_STOP     ends its own lease, stops answering at the answer
 *           M_LOOKFIRST looks, then takes           M_NOLOOK    takes, replies
 *           M_ANYEPOCH looks whether it owns at all M_GRANT     takes grants of an earlier epoch
 *           M_NODROP   keeps its buffer
 * No mutant M_EARLYASK asks before the slot's write is known. Where a slot is taken only after its
 *           owner has stopped, nothing is found in that. The code does not do it all the same.
 * -DCALM    no time, no lease ends: slots are handed over only, which is enough for some mutants.
 * Variant   ORPHANS    slot writes arrive after they were given up, under the same identity too
 *           LAPSED_IS_LOST  a lease that is not valid is left, not renewed (renewing it is safe too)
 */
#if !defined(M_GRANT) && !defined(M_EARLYASK) && !defined(M_NOLOOK) && !defined(M_ANYEPOCH) && !defined(M_LOOKFIRST) && !defined(M_SAMEEPOCH) && !defined(M_NODROP)
#define SHORT
#endif
#ifndef T
#define T 2
#endif
#ifndef M
#define M 1
#endif
#ifdef M_MARGIN0
#define V T
#elif defined(M_REST)
#define V (2*T)
#else
#define V (T-M)
#endif
#ifndef K
#define K 2          /* identities of a process */
#endif
#ifndef MAXEP
#define MAXEP 3
#endif
#ifndef MAXID
#define MAXID 3
#endif
#define NOBODY (2*K)
#define OTHER(i) (1-(i))
#define OWN(i) ((i)*K+lid[i])

byte lst[2*K+1];               /* leases: 0 absent, 1 live, 2 ended */
byte slotL = NOBODY, slotE;    /* the slot */

byte lid[2];                   /* present identity */
bool has[2];                   /* has that lease, as it knows */
byte o[2];
byte lw[2], lk[2], lp[2];      /* lease write: 0 none 1 under way 2 done; kind 1 renew 2 end */
bool sees[2]; byte c[2], x[2]; /* watches a revision of the other's present lease */

byte term[2];                  /* epoch it owns the slot in, 0 none */
byte sw[2], sk[2], se[2], sl[2];   /* slot write: as lw; kind 1 take 2 hand over; epoch; lease named */
byte os[2], ose[2], osl[2];    /* given up: kind, epoch, lease */
#ifdef M_REREAD
byte vl[2] = NOBODY;           /* a lease it once read in the slot */
#endif
#ifdef M_SAMEID
bool over[2];                  /* has once read that the other's lease has ended */
#endif

byte cur[2], end_[2], bep[2];  /* buffer [cur,end) of epoch bep */
byte ast[2], aep[2], aa[2];    /* load: 0 none 1 asked 2 reserved; epoch; first ID */
byte S;                        /* of the store */

byte at, id, ep, floor;        /* a request: 1 + who has it, 0 none; its ID, epoch; highest ID received before it */
byte top;                      /* 1 + the highest ID that was received */

#ifdef M_SUSPEND
#define CLOCK_OK(i) 1
#else
#define CLOCK_OK(i) (!(sees[i] && c[i] < T && c[i]+1 > x[i]+M))
#endif
#define LT(i) (lw[i] && lk[i] == 1)
#define TIMED(i) ((has[i] && o[i] < V) || (LT(i) && lp[i] < V) || (sees[i] && c[i] < T) || (sees[OTHER(i)] && x[OTHER(i)] < T))
#define VALID(i) (term[i] > 0 && has[i] && o[i] < V)

#ifdef M_NOEND
#define OVER(i) (lst[slotL] == 2 || (sees[i] && OWN(OTHER(i)) == slotL && c[i] >= T))
#elif defined(M_ABSENT)
#define OVER(i) 1
#elif defined(M_REREAD)
#define OVER(i) (vl[i] != NOBODY && lst[vl[i]] == 2)
#elif defined(M_SAMEID)
#define OVER(i) over[i]
#else
#define OVER(i) (lst[slotL] == 2)
#endif
/* Its own lease, or one of its own that it left: it has no term there, and nobody else can. */
#define MAYTAKE(i) (slotL == NOBODY || slotL/K == i || OVER(i))

#ifdef M_EARLYASK
#define MAYASK(i) (term[i] > 0 || (sw[i] == 1 && sk[i] == 1))
#else
#define MAYASK(i) (term[i] > 0)
#endif
#ifdef M_LATESLOT
#define NAMED(i) 1
#else
#define NAMED(i) (sl[i] == OWN(i))
#endif
#ifdef M_GRANT
#define FRESH(i) 1
#else
#define FRESH(i) (aep[i] == term[i])
#endif
#ifdef LAPSED_IS_LOST
#define RENEWS(i) (o[i] < V)
#else
#define RENEWS(i) 1
#endif
#ifdef M_SAMEID
#define MAYCREATE(i) (lst[OWN(i)] != 1)
#else
#define MAYCREATE(i) (lst[OWN(i)] == 0)
#endif

inline dropBuf(i_) { cur[i_] = 0; end_[i_] = 0; bep[i_] = 0 }
inline loseTerm(i_) { term[i_] = 0;
#ifdef SHORT            /* what would only be burnt is forgotten */
  ast[i_] = 0; aep[i_] = 0; aa[i_] = 0;
  if :: at == i_+1 -> at = 0; id = 0; ep = 0; floor = 0 :: else fi;
#endif
#ifndef M_NODROP
  dropBuf(i_)
#endif
}
inline noLeaseWrite(i_) { lw[i_] = 0; lk[i_] = 0; lp[i_] = 0 }
inline noSlotWrite(i_) { sw[i_] = 0; sk[i_] = 0; se[i_] = 0; sl[i_] = 0 }
inline noOrphan(i_) { os[i_] = 0; ose[i_] = 0; osl[i_] = 0 }
inline giveUpSlot(i_) {
  if :: sw[i_] == 1 -> os[i_] = sk[i_]; ose[i_] = se[i_]; osl[i_] = sl[i_] :: else fi;
  noSlotWrite(i_) }

/* the process's own write of its lease arrives: who watched it begins again */
inline leaseWritten(i_, k_) {
  lst[OWN(i_)] = (k_ == 2 -> 2 : 1);
  sees[OTHER(i_)] = 0; c[OTHER(i_)] = 0; x[OTHER(i_)] = 0 }

/* the other ends it: what was under way is refused */
inline endLease(i_) {
  lst[OWN(i_)] = 2;
  sees[OTHER(i_)] = 0; c[OTHER(i_)] = 0; x[OTHER(i_)] = 0;
  if :: lw[i_] == 1 -> noLeaseWrite(i_) :: else fi }

/* leaves its identity: nothing of it counts any more */
inline leave(i_) {
#ifndef M_KEEPTERM
  loseTerm(i_);
#endif
  has[i_] = 0; o[i_] = 0; noLeaseWrite(i_);
#ifndef M_LATESLOT
  giveUpSlot(i_)
#endif
}

inline slotWritten(i_, k_, e_, l_) {
  slotL = l_; slotE = e_; noOrphan(0); noOrphan(1);
  if :: sw[OTHER(i_)] == 1 -> noSlotWrite(OTHER(i_)) :: else fi }

proctype proc(byte i) {
end:
  do
#ifndef CALM
  :: atomic { CLOCK_OK(i) && TIMED(i) ->
       if :: has[i] && o[i] < V -> o[i]++ :: else fi;
       if :: LT(i) && lp[i] < V -> lp[i]++ :: else fi;
       if :: sees[i] && c[i] < T -> c[i]++ :: else fi;
       if :: sees[OTHER(i)] && x[OTHER(i)] < T -> x[OTHER(i)]++ :: else fi }
#endif

  /* ---- its own lease */
  :: atomic { !has[i] && lw[i] == 0 && MAYCREATE(i) -> lw[i] = 1; lk[i] = 1 }
#ifndef CALM
  :: atomic { has[i] && lw[i] == 0 && lst[OWN(i)] == 1 && RENEWS(i) -> lw[i] = 1; lk[i] = 1 }
  :: atomic { has[i] && lw[i] == 0 && lst[OWN(i)] == 1 ->               /* a clean stop */
#ifndef M_STOP
       loseTerm(i); has[i] = 0; o[i] = 0;
#endif
       lw[i] = 1; lk[i] = 2 }
  :: atomic { lw[i] -> noLeaseWrite(i) }                                /* never known, or lost */
#endif
  :: atomic { lw[i] == 1 -> leaseWritten(i, lk[i]); lw[i] = 2 }
  :: atomic { lw[i] == 2 ->                                             /* known to be done */
       if :: lk[i] == 1 -> has[i] = 1;
#ifdef M_STAMP
            o[i] = 0;
#else
            o[i] = lp[i];
#endif
            noLeaseWrite(i)
          :: else -> leave(i)
       fi }
  :: atomic { has[i] && lw[i] == 0 && lst[OWN(i)] == 2 -> leave(i) }    /* reads it: ended */
  :: atomic { lid[i] < K-1 && (lst[OWN(i)] != 0 || lw[i]) -> leave(i);  /* a new identity */
#ifdef M_REREAD
       vl[i] = NOBODY;
#endif
       sees[OTHER(i)] = 0; c[OTHER(i)] = 0; x[OTHER(i)] = 0; lid[i]++ }

  /* ---- the other's leases */
#ifndef CALM
  :: atomic { !sees[i] && lst[OWN(OTHER(i))] == 1 -> sees[i] = 1 }
#ifdef M_SIGHT
  :: atomic { !sees[i] && lst[OWN(OTHER(i))] == 1 -> sees[i] = 1; c[i] = T }
#endif
#ifndef M_NOEND
  :: atomic { sees[i] && c[i] >= T -> endLease(OTHER(i))
#ifdef M_SAMEID
       ; over[i] = 1
#endif
     }
#endif
  :: atomic { lid[OTHER(i)] > 0 && lst[OTHER(i)*K] < 2 -> lst[OTHER(i)*K] = 2 }
#endif

  /* ---- the slot */
#ifdef M_REREAD
  :: atomic { slotL != NOBODY && slotL/K != i && vl[i] != slotL -> vl[i] = slotL }
#endif
#ifdef M_ADOPT
  :: atomic { has[i] && !term[i] && sw[i] == 0 && slotL == OWN(i) && slotE > 0 -> term[i] = slotE; dropBuf(i) }
#endif
  :: atomic { has[i] && !term[i] && sw[i] == 0 && slotE < MAXEP && MAYTAKE(i) ->
       sw[i] = 1; sk[i] = 1; sl[i] = OWN(i);
#ifdef M_SAMEEPOCH
       se[i] = (slotE == 0 -> 1 : slotE)
#else
       se[i] = slotE + 1
#endif
     }
  :: atomic { term[i] && sw[i] == 0 && slotL == OWN(i) && slotE == term[i] ->   /* hands over */
       sw[i] = 1; sk[i] = 2; se[i] = slotE;
       if :: sl[i] = NOBODY :: sl[i] = OWN(OTHER(i)) fi;
#ifndef M_HAND
       loseTerm(i)
#endif
     }
  :: atomic { sw[i] == 1 -> slotWritten(i, sk[i], se[i], sl[i]); sw[i] = 2 }
  :: atomic { os[i] -> slotWritten(i, os[i], ose[i], osl[i]); if :: sw[i] == 1 -> noSlotWrite(i) :: else fi }
  :: atomic { sw[i] == 2 ->                                             /* known to be done */
       if :: sk[i] == 1 && has[i] && NAMED(i) -> term[i] = se[i];
#ifndef M_NODROP
            dropBuf(i)
#else
            if :: end_[i] > 0 -> bep[i] = term[i] :: else fi
#endif
          :: else -> loseTerm(i)
       fi;
       noSlotWrite(i) }
#if defined(M_ADOPT) || defined(ORPHANS)
  :: atomic { sw[i] == 1 && os[i] == 0 -> giveUpSlot(i) }
#endif
  :: atomic { sw[i] -> noSlotWrite(i) }                                 /* never known, or lost */
  :: atomic { term[i] && sw[i] == 0 && !(slotL == OWN(i) && slotE == term[i]) -> loseTerm(i) }

#ifdef FENCE
  :: atomic { VALID(i) && !(slotL == OWN(i) && slotE == term[i]) -> assert(0) }
#else
  /* ---- loads */
  :: atomic { MAYASK(i) && cur[i] == end_[i] && S < MAXID && ast[i] == 0 -> ast[i] = 1;
       aep[i] = (term[i] > 0 -> term[i] : se[i]) }
  :: atomic { ast[i] == 1 && S < MAXID -> ast[i] = 2; aa[i] = S; S++ }
  :: atomic { ast[i] == 2 && term[i] > 0 && cur[i] == end_[i] && FRESH(i) ->
       cur[i] = aa[i]; end_[i] = aa[i]+1; bep[i] = term[i]; ast[i] = 0; aep[i] = 0; aa[i] = 0 }
  :: atomic { ast[i] -> ast[i] = 0; aep[i] = 0; aa[i] = 0 }
#endif
  od
}

inline reply(n_) {
#ifdef COVER
  assert(!(slotE == MAXEP && n_ == MAXID-1));    /* reached */
#endif
  assert(n_ >= floor);
  top = (n_ + 1 > top -> n_ + 1 : top) }

proctype requests() {
end:
  do
#ifdef M_LOOKFIRST
  :: atomic { at == 0 && VALID(0) -> floor = top; at = 1 }
  :: atomic { at == 0 && VALID(1) -> floor = top; at = 2 }
  :: atomic { at -> if :: term[at-1] > 0 && cur[at-1] < end_[at-1] -> id = cur[at-1]; cur[at-1]++; reply(id) :: else fi;
       at = 0; id = 0; floor = 0 }
#else
  :: atomic { at == 0 && term[0] && cur[0] < end_[0] -> floor = top; at = 1; id = cur[0]; cur[0]++; ep = bep[0] }
  :: atomic { at == 0 && term[1] && cur[1] < end_[1] -> floor = top; at = 2; id = cur[1]; cur[1]++; ep = bep[1] }
  :: atomic { at ->
       if
#if defined(M_NOLOOK)
       :: reply(id)
#elif defined(M_ANYEPOCH)
       :: VALID(at-1) -> reply(id)
       :: else
#else
       :: VALID(at-1) && term[at-1] == ep ->
            reply(id)
       :: else                                            /* burnt */
#endif
       fi;
       at = 0; id = 0; ep = 0; floor = 0 }
#endif
  od
}

init { atomic { run proc(0); run proc(1); 
#ifndef FENCE
  run requests()
#endif
} }
