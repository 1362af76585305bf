/* Register: is any number of a tag granted twice? (package store/register)
 * docs/proofs/register.md has the argument.
 *
 * A tag's entry is {next}. Its revision is its sequence in the one stream that
 * holds all entries. A loader takes these steps:
 *
 *   begin    JetStream: takes [next, next+k) of the cached entry, which may be
 *            old. SQL (NC > 0): raises a row in one of NC databases by k.
 *            At any moment a row regresses (F times) or is raised.
 *   look     SQL: goes on if the cached next <= first. Otherwise it burns the
 *            range and begins again, after the row was raised.
 *   send     sends its write, on the condition of the cached revision
 *   arrives  compare-and-set at the leader: next = end
 *   answer   grants the range
 *   refused  begins again; SQL: keeps the range and looks again
 *   unknown  no answer: burns the range, and polls before the next write.
 *            The write may still arrive (late).
 *   read     reads an entry from the leader into the cache. -DSLOW: the reply
 *            comes in a later step.
 *   poll     requests the stream's last sequence from the leader. The reply
 *            comes in a later step.
 *   note     writes `seen` and the decisions to a file outside the data
 *   start    loses the cache, reads the file, polls before the first write
 *
 * `seen` is the highest sequence known from answers, reads and polls. Each of
 * these proves that the register regressed, and stops the loader:
 *
 *   LESS     a poll shows less than was seen when it was sent
 *   TOOLOW   an answer's revision is not above what was seen when the write was
 *            sent
 *   SHRANK   a read shows a lower next than was cached when it was sent
 *
 * -DBACK     The register, all keys and the sequence, was put back from h
 *            writes to the first s of them. before() chooses the writes and the
 *            grants, and each loader's cache, seen and file. All polls are
 *            outdated, so each loader polls before its first write.
 * -DBRIEF    The restore was shorter than a poll is valid: no loader polls.
 * -DRAISE=n  An administrator marks the register as being raised and raises
 *            each entry by n. One last update removes the mark and writes a new
 *            decision with the lowest first number of new tags. Polls show mark
 *            and decision. No loader writes while the mark is there. At a new
 *            decision a loader compares its cache with the entries. If one is
 *            lower, it stays stopped. Otherwise it goes on with an empty cache
 *            and a new `seen`.
 * -DDEC=d    The decision after the restore: 1 is the latest, 0 the one before
 *            it; all loaders have seen both. The administrator's is 2.
 *
 * Assumed with BACK (without any of these: only OVER=0):
 *   KNOW=n     each loader had seen (with CR: noted) at least n lost writes
 *   KNOW=0     each loader had seen the writes of its own grants (-DEACH: noted
 *              each before its grant)
 *   -DOWN      one loader, whose cache covers all that it granted
 *   OVER=0     no write sent before the restore arrives after it. OVER=1: such
 *              writes arrive. OVER=2: they are answered, too.
 *
 * Properties: no number of a tag is granted twice. Without BACK, ranges also
 * ascend in the order of the writes, and no proof stops a loader (RULES=1).
 *
 * Bounds: NL loaders, NT tags, numbers below N, at most K in a range, R writes,
 * h <= H; NC databases, F; CR starts.
 *
 * Abstracted: clocks. A poll stays valid until an unknown answer or a start.
 * Time matters only for what BACK and BRIEF assume. Cached values that can only
 * be refused become {0, 0}, which is refused as well.
 *
 * Not here: a bucket that was made again, and order across a restore.
 *
 * Mutants, -DM=x:
 *   BLIND    writes without a condition
 *   REBASE   after a refusal takes the new revision and keeps its range
 *   NOLOOK   SQL: does not look            END      SQL: compares next with end
 *   UNKNOWN  grants an unknown outcome     ADOPT    does so if a read shows end
 *   BLUNT    does not poll after unknown   SEEN     seen comes from polls alone
 *   LAST     does not judge polls          POLL     writes without a poll
 *   START    starts without a poll         FILE     writes no file
 *   ACK      does not compare answers      READ     does not compare reads
 *   NOW      judges a poll by what was seen when its reply came
 *   NOWREAD  judges a read by what was cached when its reply came (SLOW)
 *   OPEN     raises without the mark       FLOOR    new tags begin at 0
 *   COMPARE  does not compare its cache    FORGET   decisions are not noted
 *   KEEP     keeps its cache at a new decision, if it had found no proof
 *   LATEST   a loader has seen the latest decision only
 *   RULES=0  grants as above, but keeps no `seen`, no polls and no proofs
 * Variants:
 *   AGAIN    polls again after a proof; passes
 *   REACH    fails if a loader grants after the decision, to show that it does
 */
#ifndef NL                      /* give all of these or none */
#define NL 2
#define NT 2
#define N 3
#define K 2
#define R 4
#define H 2
#endif
#ifndef NC
#define NC 0
#define F 0
#endif
#ifndef BACK
#define BACK 0
#endif
#ifndef RULES
#define RULES BACK
#endif
#ifndef RAISE
#define RAISE 0
#endif
#ifndef DEC
#define DEC 1
#endif
#ifndef M
#define M NONE
#endif
mtype = { NONE, BLIND, REBASE, NOLOOK, END, UNKNOWN, ADOPT, BLUNT, SEEN, LAST, NOW, NOWREAD, POLL,
          START, FILE, ACK, READ, AGAIN, OPEN, FLOOR, COMPARE, KEEP, LATEST, FORGET, REACH };
#define MASK(a, b) (((1 << (b)) - 1) & ~((1 << (a)) - 1))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

#define NEW(l, d) (!(ld[l].set & (1 << (d))))
#define FIRST(l, t) (!NEW(l, 2) && !ld[l].rev[t] && M != FLOOR -> RAISE : ld[l].next[t])
#define THERE(t) (rv[t] || M == FLOOR -> nxt[t] : RAISE)
#define HOLDS(l) (ld[l].on == rv[ld[l].t] || M == BLIND)
#define ASCENDS(l) (ld[l].a >= nxt[ld[l].t] || BACK || M != NONE)
#define BELOW(l) (FIRST(l, ld[l].t) > (M == END -> ld[l].b - 1 : ld[l].a) && M != NOLOOK)
#define MAYSEND(l) (!RULES || (!ld[l].stop && (ld[l].ok || M == POLL)))
#define OLD(l, t) (ld[l].rev[t] < rv[t] && ld[l].next[t] <= nxt[t])

#define LESS(l) (ld[l].p < (M == NOW -> ld[l].seen : ld[l].pw) && M != LAST)
#define TOOLOW(l) (RULES && seq <= ld[l].was && M != ACK)
#define SHRANK(l, shown, cached) (RULES && shown < cached && M != READ)
#define TAKES(l) (NEW(l, ld[l].pd) && (M != KEEP || ld[l].stop || LESS(l)))
#define PROOF(l) assert(BACK); ld[l].ok = 0; ld[l].stop = (M != AGAIN)
#define SAW(l, r) ld[l].seen = (RULES && M != SEEN -> MAX(ld[l].seen, r) : ld[l].seen)

typedef Loader {
  byte next[NT], rev[NT];       /* the cache */
  byte seen, file;              /* as above; as it was noted */
  bool ok, stop;                /* the last poll was good; a proof was found */
  bool asks; byte p, pw;        /* a poll is open: its reply, seen when sent */
  bool ps; byte pd;             /*   whether it shows the mark; the decision it shows */
  byte set, fset;               /* the decisions seen; as they were noted */
  byte st;                      /* 0 idle, 1 has a range (SQL), 2 sent, 3 written, 4 too low, 5 unknown (ADOPT) */
  byte t, a, b, on, was;        /* tag, range, condition or revision, seen when sent */
  bool late; byte lt, lb, lon   /* a write that was given up, and may arrive */
#ifdef SLOW
  ; bool reads; byte rt, rn, rr, rc     /* a read is open: tag, reply, next cached when sent */
#endif
}
Loader ld[NL];
byte seq, nxt[NT], rv[NT];      /* the register */
bool mark; byte dec;                 /* its metadata: is being raised; the decision */
byte S[8], granted[NT], forgets, starts;

inline idle(l_) { ld[l_].st = 0; ld[l_].t = 0; ld[l_].a = 0; ld[l_].b = 0; ld[l_].on = 0; ld[l_].was = 0 }
inline noLate(l_) { ld[l_].late = 0; ld[l_].lt = 0; ld[l_].lb = 0; ld[l_].lon = 0 }
inline keepLate(l_, t_, b_, on_) { ld[l_].late = 1; ld[l_].lt = t_; ld[l_].lb = b_; ld[l_].lon = on_ }
inline giveUp(l_) {             /* a write that can only be refused is dropped */
  if :: ld[l_].st == 2 && ld[l_].on >= rv[ld[l_].t] -> keepLate(l_, ld[l_].t, ld[l_].b, ld[l_].on) :: else fi }
inline age() { i = 0;
  do :: i < NL*NT -> if :: OLD(i/NT, i%NT) -> ld[i/NT].next[i%NT] = 0; ld[i/NT].rev[i%NT] = 0 :: else fi;
                     if :: ld[i/NT].late && ld[i/NT].lt == i%NT && ld[i/NT].lon < rv[i%NT] -> noLate(i/NT) :: else fi; i++
     :: else -> break od; i = 0 }
inline written(t_, b_) { seq++; nxt[t_] = b_; rv[t_] = seq; age() }
inline grant(l_) { assert(M != REACH || dec != 2); assert(!(granted[ld[l_].t] & MASK(ld[l_].a, ld[l_].b)));
  granted[ld[l_].t] = granted[ld[l_].t] | MASK(ld[l_].a, ld[l_].b); idle(l_) }
inline emptyCache(l_) { t = 0;
  do :: t < NT -> ld[l_].next[t] = 0; ld[l_].rev[t] = 0; t++ :: else -> break od; t = 0 }
inline endPoll(l_) { ld[l_].asks = 0; ld[l_].p = 0; ld[l_].pw = 0; ld[l_].ps = 0; ld[l_].pd = 0 }
inline judge(l_) {
  if :: ld[l_].ps -> ld[l_].ok = 0
     :: !ld[l_].ps && TAKES(l_) -> ld[l_].set = ld[l_].set | (1 << ld[l_].pd); ld[l_].stop = 0; t = 0;
        do :: t < NT -> if :: THERE(t) < ld[l_].next[t] && M != COMPARE -> ld[l_].stop = 1 :: else fi; t++
           :: else -> break od; t = 0;
        if :: ld[l_].stop -> ld[l_].ok = 0
           :: else -> emptyCache(l_); ld[l_].seen = ld[l_].p; ld[l_].ok = 1 fi
     :: !ld[l_].ps && !TAKES(l_) -> ld[l_].set = ld[l_].set | (1 << ld[l_].pd);
        if :: LESS(l_) -> PROOF(l_)
           :: else -> ld[l_].seen = MAX(ld[l_].seen, ld[l_].p); ld[l_].ok = !ld[l_].stop fi fi;
  endPoll(l_) }

proctype loader(byte l) { byte t, k, c, i;
end: do
#if !NC
  :: atomic { ld[l].st == 0 && MAYSEND(l) -> select(t : 0 .. NT-1); select(k : 1 .. K);           /* begin, send */
       if :: FIRST(l, t) + k <= N -> ld[l].t = t; ld[l].a = FIRST(l, t); ld[l].b = ld[l].a + k;
             ld[l].on = ld[l].rev[t]; ld[l].was = ld[l].seen; ld[l].st = 2 :: else fi; t = 0; k = 0 }
#else
  :: atomic { ld[l].st == 0 -> select(t : 0 .. NT-1); select(c : 0 .. NC-1); select(k : 1 .. K);  /* begin */
       if :: S[t*NC+c] + k <= N -> ld[l].t = t; ld[l].a = S[t*NC+c]; S[t*NC+c] = S[t*NC+c] + k;
             ld[l].b = S[t*NC+c]; ld[l].st = 1 :: else fi; t = 0; k = 0; c = 0 }
  :: atomic { ld[l].st == 1 && BELOW(l) -> idle(l) }                                              /* look: burn */
  :: atomic { ld[l].st == 1 && !BELOW(l) && MAYSEND(l) ->                                         /* look, send */
       ld[l].on = ld[l].rev[ld[l].t]; ld[l].was = ld[l].seen; ld[l].st = 2 }
#endif
  :: atomic { ld[l].st == 2 && seq < R && HOLDS(l) -> assert(ASCENDS(l)); t = ld[l].t;            /* arrives */
       written(t, ld[l].b); t = 0; ld[l].st = (TOOLOW(l) -> 4 : 3); ld[l].on = seq; ld[l].was = 0 }
  :: atomic { ld[l].late && seq < R && ld[l].lon == rv[ld[l].lt] ->                               /* arrives late */
       t = ld[l].lt; written(t, ld[l].lb); t = 0 }
  :: atomic { ld[l].st == 2 && !HOLDS(l) ->                                                       /* refused */
       if :: M == REBASE -> ld[l].on = rv[ld[l].t]
          :: M != REBASE && NC -> ld[l].st = 1; ld[l].on = 0; ld[l].was = 0
          :: M != REBASE && !NC -> idle(l) fi }
  :: atomic { ld[l].st == 3 -> SAW(l, ld[l].on); t = ld[l].t;                              /* answer */
       ld[l].next[t] = ld[l].b; ld[l].rev[t] = ld[l].on; age(); t = 0;
#ifdef EACH
       ld[l].file = ld[l].seen;
#endif
       grant(l) }
  :: atomic { ld[l].st == 4 -> PROOF(l); idle(l) }                                                /* answer, too low */
  :: atomic { (ld[l].st == 2 && !ld[l].late) || ld[l].st == 3 || ld[l].st == 4 -> giveUp(l);      /* unknown */
       if :: M == BLUNT :: else -> ld[l].ok = 0 fi;
       if :: M == UNKNOWN -> grant(l) :: M == ADOPT -> ld[l].st = 5 :: else -> idle(l) fi }
  :: atomic { ld[l].st == 5 -> if :: nxt[ld[l].t] == ld[l].b -> grant(l) :: else -> idle(l) fi }
#ifndef SLOW
  :: atomic { ld[l].st < 2 && !ld[l].stop -> select(t : 0 .. NT-1);                               /* read */
       if :: SHRANK(l, nxt[t], ld[l].next[t]) -> PROOF(l)
          :: !SHRANK(l, nxt[t], ld[l].next[t]) && rv[t] != ld[l].rev[t] ->
             ld[l].next[t] = nxt[t]; ld[l].rev[t] = rv[t]; SAW(l, rv[t])
          :: else fi; t = 0 }
#else
  :: atomic { !ld[l].reads && !ld[l].stop -> select(t : 0 .. NT-1);                               /* read */
       if :: rv[t] != ld[l].rev[t] -> ld[l].reads = 1; ld[l].rt = t; ld[l].rn = nxt[t]; ld[l].rr = rv[t];
             ld[l].rc = ld[l].next[t] :: else fi; t = 0 }
  :: atomic { ld[l].reads -> t = ld[l].rt;                                                        /* its reply */
       if :: SHRANK(l, ld[l].rn, (M == NOWREAD -> ld[l].next[t] : ld[l].rc)) -> PROOF(l)
          :: else -> if :: ld[l].rr > ld[l].rev[t] && ld[l].st < 2 ->
                           ld[l].next[t] = ld[l].rn; ld[l].rev[t] = ld[l].rr; SAW(l, ld[l].rr); age() :: else fi fi;
       ld[l].reads = 0; ld[l].rt = 0; ld[l].rn = 0; ld[l].rr = 0; ld[l].rc = 0; t = 0 }
#endif
#if RULES
  :: atomic { !ld[l].asks && (NEW(l, dec) || (!ld[l].stop && (!ld[l].ok || ld[l].seen != seq))) ->
       ld[l].asks = 1; ld[l].p = seq; ld[l].pw = ld[l].seen; ld[l].ps = mark; ld[l].pd = dec }    /* poll */
  :: atomic { ld[l].asks -> judge(l) }                                                            /* its reply */
#endif
#if CR
  :: atomic { (ld[l].file != ld[l].seen || ld[l].fset != ld[l].set) && M != FILE ->               /* note */
       ld[l].file = ld[l].seen; ld[l].fset = ld[l].set }
  :: atomic { starts < CR -> starts++; giveUp(l); idle(l); endPoll(l); emptyCache(l);             /* start */
       ld[l].ok = (M == START); ld[l].stop = 0; ld[l].seen = ld[l].file; ld[l].set = ld[l].fset }
#endif
  od }

#if NC
active proctype databases() { byte c, k;
end: do
  :: atomic { forgets < F -> select(c : 0 .. NT*NC-1);                                            /* a row goes back */
       if :: S[c] > 0 -> select(k : 0 .. S[c]-1); S[c] = k; forgets++ :: else fi; c = 0; k = 0 }
  :: atomic { select(c : 0 .. NT*NC-1);                                                           /* is raised */
       if :: S[c] < nxt[c/NC] -> S[c] = nxt[c/NC] :: else fi; c = 0 }
  od }
#endif

#if RAISE
proctype admin() { byte t, i;
  if :: M == OPEN :: else -> mark = 1 fi;
  do :: t < NT -> atomic { if :: rv[t] -> written(t, nxt[t] + RAISE) :: else fi; t++ }
     :: else -> break od;
  atomic { t = 0; dec = 2; mark = 0 } }
#endif

#if BACK
byte wt[H+1], wn[H+1];          /* the writes before; all is zero again when init is done */
#if (CR && KNOW) || defined(EACH)
#define KNOWN (M == FILE -> ld[l].seen : ld[l].file)
#else
#define KNOWN MAX(ld[l].seen, MAX(ld[l].rev[0], ld[l].rev[NT-1]))
#endif
#ifdef OWN
#define KNEW (!(granted[0] >> ld[l].next[0]) && !(granted[NT-1] >> ld[l].next[NT-1]))
#elif !defined(KNOW)
#define KNEW true
#elif KNOW == 0
#define KNEW (KNOWN >= g[l])
#else
#define KNEW (KNOWN >= s + KNOW)
#endif
inline past(t_) {               /* any entry of t_ that there was: k next, i revision */
  select(i : 0 .. h); if :: i > 0 && wt[i] == t_ -> k = wn[i] :: else -> i = 0; k = 0 fi }
inline before() {
  do :: h < H -> select(t : 0 .. NT-1); select(k : 1 .. K); select(l : 0 .. NL-1);
        if :: nxt[t] + k <= N -> h++; if :: granted[t] = granted[t] | MASK(nxt[t], nxt[t]+k); g[l] = h :: skip fi;
              nxt[t] = nxt[t] + k; rv[t] = h; wt[h] = t; wn[h] = nxt[t] :: else -> break fi
     :: h > 0 -> break od;
  select(s : 0 .. h-1); t = 0;
  do :: t < NT*NC -> if :: NC > 1 || F -> select(k : 0 .. N-1) :: else -> k = nxt[t] fi; S[t] = k; t++
     :: else -> break od;
  l = 0;
  do :: l < NL -> t = 0;
        do :: t < NT -> past(t); ld[l].next[t] = k; ld[l].rev[t] = i; SAW(l, i); t++ :: else -> break od;
        if :: RULES -> select(k : 0 .. h); ld[l].seen = MAX(ld[l].seen, k) :: else fi;
#if CR
        select(k : 0 .. ld[l].seen); ld[l].file = (M == FILE -> 0 : k);
#endif
#ifdef BRIEF
        ld[l].ok = 1;
#endif
        if :: KNEW :: else -> bad = 1 fi;
#if OVER
        select(t : 0 .. NT-1); past(t);
        if :: k < N && OVER == 1 -> keepLate(l, t, k+1, i)
           :: k < N && OVER == 2 -> ld[l].st = 2; ld[l].t = t; ld[l].a = k; ld[l].b = k+1; ld[l].on = i;
              select(k : i .. ld[l].seen); ld[l].was = k
           :: skip fi;
#endif
        ld[l].set = (M == LATEST -> 2 : 3); ld[l].fset = (M == FORGET -> 1 : ld[l].set);
        g[l] = 0; l++ :: else -> break od; l = 0; t = 0;
  do :: t < NT -> nxt[t] = 0; rv[t] = 0; t++ :: else -> break od; i = 1;
  do :: i <= H -> if :: i <= s -> nxt[wt[i]] = wn[i]; rv[wt[i]] = i :: else fi; wt[i] = 0; wn[i] = 0; i++
     :: else -> break od;
  dec = DEC; seq = s; age(); h = 0; s = 0; t = 0; k = 0 }
#endif

init { byte l, h, s, t, k, i, g[NL]; bool bad;
  atomic {
#if BACK
    before();
#else
    do :: l < NL -> ld[l].set = 1; ld[l].fset = 1; l++ :: else -> break od; l = 0;
#endif
    if :: bad
       :: else -> do :: l < NL -> run loader(l); l++ :: else -> break od; l = 0;
#if RAISE
          run admin()
#endif
    fi } }
