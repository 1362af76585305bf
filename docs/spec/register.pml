/* Register: is any number of a tag granted twice? (package store/register)
 * docs/proofs/register.md has the argument. What a loader concludes is one
 * package, store/register/internal/guard, and can be read beside this file:
 *
 *   here                        there (methods of Guard, unless noted)
 *   seen, first, set, file      Record: Position, First, Decisions; the witness
 *   ok, stop                    a permit that is fresh; stopped and proven
 *   MAYSEND, p, pw, was         Permit, Sending; Stamp
 *   poll, its reply: judge      Stamp; Polled, Compared, Accept
 *   LESS                        Record.check
 *   NEW, TAKES                  Record.decided
 *   answer: TOOLOW, SAW         Wrote
 *   read, its reply: SHRANK     Epoch; Read
 *   unknown                     Doubt
 *   PROOF                       prove, and stop
 *   overtake                    overtake
 *   putBack                     IsFresh, Renewed; acceptance, accepting (register)
 *   LIFTED, PUTBACK             Raise.apply (register)
 *   start                       Begin
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
 * -DRAISE=n  An administrator marks the register as being raised, with the
 *            target of the raise, waits until no loader has a permit, and raises
 *            each entry by n. One last update removes the mark and writes a new
 *            decision with the lowest first number of new tags. Polls show mark
 *            and decision. No loader writes while the mark is there. At a new
 *            decision a loader compares its cache with the entries. If one is
 *            lower, it stays stopped. Otherwise it goes on with an empty cache
 *            and a new `seen`.
 * -DTARGET=T The time of the raise: entries below T, or n above an earlier
 *            target, are lifted to it, others by n and the time since they were
 *            written. The last tag begins at BEGIN. Copies were written at W.
 * -DTWICE=1  After the decision the same copy is put back once more, and raised
 *            again. TWICE=2: while it is being raised.
 * -DLOST=1   The register was deleted. The writes before were to the old stream,
 *            permits are valid, and updates of it may arrive at any time. To a
 *            loader a missing register is one that is being raised. A restore
 *            waits until no loader has a permit, makes a register with the mark
 *            and a first sequence above the old ones, and raises it. The entries
 *            of a list that are missing it writes as the raise would leave them:
 *            those above the target were written at W. The list was taken after
 *            any of the writes. Needs RAISE, TARGET and OVER=2.
 *            LOST=2: the register went back, and the list is newer.
 * -DADMINS=2 Two administrators; one may stop at any moment.
 * -DDEC=d    The decision after the restore: 1 is the latest, 0 the one before
 *            it; all loaders have seen both. The administrator's is 2.
 *
 * Assumed with BACK (without any of these: only OVER=0), but not with LOST=1:
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
 * Not here: a bucket that others made again, identities, the number of entries,
 * creations of the old stream that are later than permits, and order across a
 * restore.
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
 *   WAIT     raises without waiting for permits (BRIEF)
 *   ABOVE    does not rewrite an entry above the target (TARGET)
 *   CONFIG   a process writes settings back that it read before (TWICE)
 *   HIGH     keeps a higher `seen` over a decision: a proof stops a loader
 *            although nothing regressed since
 *   SAME     raises to the time, whatever was decided before (TWICE)
 *   LOOK     does not look whether its mark stands (TWICE=2)
 *   PERMIT   puts entries back without a permit (TWICE)
 *   FLIGHT   discards nothing that is in flight (RAISE, SLOW)
 *   PLAIN    makes a register without the mark (LOST=1)
 *   LOW      its sequences begin at 1 (LOST=1)
 *   SOON     makes it while loaders have permits (LOST=1)
 *   AFTER    writes the entries of the list after it lifted the others, and as
 *            they are in the list (LOST)
 *   BEFORE   writes them before the mark (LOST=2)
 *   BEHIND   a mark over another may have a lower target. run.sh does not run
 *            it: entries above a target are lifted, too
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
#ifndef TARGET
#define TARGET 0
#endif
#ifndef BEGIN
#define BEGIN 0
#endif
#ifndef W
#define W 0
#endif
#ifndef ADMINS
#define ADMINS 1
#endif
#ifndef TWICE
#define TWICE 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef CR
#define CR 0
#endif
#ifndef DEC
#define DEC (LOST != 1)
#endif
#ifndef OVER
#define OVER 0
#endif
#ifndef M
#define M NONE
#endif
mtype = { NONE, BLIND, REBASE, NOLOOK, END, UNKNOWN, ADOPT, BLUNT, SEEN, LAST, NOW, NOWREAD, POLL,
          START, FILE, ACK, READ, AGAIN, OPEN, FLOOR, COMPARE, KEEP, LATEST, FORGET, REACH, WAIT,
          CONFIG, SAME, BEHIND, LOOK, ABOVE, HIGH, FLIGHT, PERMIT,
          PLAIN, LOW, AFTER, BEFORE, SOON };
#define MASK(a, b) (((1 << (b)) - 1) & ~((1 << (a)) - 1))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

#define GONE (LOST == 1 && mark == 255)         /* to loaders, a missing register is one that is being raised */
#define NEW(l, d) (!(ld[l].set & (1 << (d))))
#define FIRST(l, t) (ld[l].rev[t] -> ld[l].next[t] : ld[l].first)
#define THERE(t, first) (rv[t] -> nxt[t] : first)
#define HOLDS(l) (!GONE && (ld[l].on == rv[ld[l].t] || M == BLIND))
#define ASCENDS(l) (ld[l].a >= nxt[ld[l].t] || BACK || M != NONE)
#define BELOW(l) (FIRST(l, ld[l].t) > (M == END -> ld[l].b - 1 : ld[l].a) && M != NOLOOK)
#define MAYSEND(l) (!RULES || (!ld[l].stop && (ld[l].ok || M == POLL)))
#define OLD(l, t) (ld[l].rev[t] < rv[t] && ld[l].next[t] <= nxt[t] && !TWICE)

#define LESS(l) ((ld[l].p < (M == NOW -> ld[l].seen : ld[l].pw) && M != LAST) || ld[l].pf < ld[l].first)
#define TOOLOW(l) (RULES && seq <= ld[l].was && M != ACK)
#define SHRANK(l, shown, cached) (RULES && shown < cached && M != READ)
#define TAKES(l) (NEW(l, ld[l].pd) && (M != KEEP || ld[l].stop || LESS(l)))
#define PROOF(l) assert(BACK && (dec < 2 || NEW(l, dec) || M == LOW || M == SAME)); ld[l].ok = 0; ld[l].stop = (M != AGAIN); overtake(l)
#define SAW(l, r) ld[l].seen = (RULES && M != SEEN -> MAX(ld[l].seen, r) : ld[l].seen)

typedef Loader {
  byte next[NT], rev[NT];       /* the cache */
  byte seen, file;              /* as above; as it was noted */
  byte first;                   /* the lowest first number of a new tag */
  bool ok, stop;                /* the last poll was good; a proof was found */
  bool asks; byte p, pw;        /* a poll is open: its reply, seen when sent */
  bool ps; byte pd, pf;         /*   whether it shows the mark; the decision and the lowest first number */
  byte set, fset;               /* the decisions seen; as they were noted */
  byte st;                      /* 0 idle, 1 has a range (SQL), 2 sent, 3 written, 4 too low, 5 unknown (ADOPT) */
  byte t, a, b, on, was;        /* tag, range, condition or revision, seen when sent */
  byte late, lt, lb, lon        /* a write that was given up, and may arrive; 2: a tag put back */
#if OVER == 3
  ; byte la, lwas               /* it is answered: its range, unless empty; seen when sent */
#endif
#ifdef SLOW
  ; bool reads; byte rt, rn, rr, rc     /* a read is open: tag, reply, next cached when sent */
#endif
}
Loader ld[NL];
byte seq, nxt[NT], rv[NT];      /* the register */
byte mark, dec, low;            /* its metadata: the target of a raise; the decision; the lowest first number */
byte known, decs, restores;     /* the highest such number; decisions; restores after the first */
byte S[8], forgets, starts;
short granted[NT];
#if LOST
byte lst[NT];                   /* the list: next of each tag, 0 if it lacks the tag */
#endif
#if TARGET
byte wr[NT];                    /* when each entry was written */
#endif
#if TWICE
byte copySeq, copyNxt[NT], copyRv[NT], top[NT];     /* the copy; what may be granted before it is put back */
#define LIMIT(t) (top[t] -> top[t] : N)
#else
#define LIMIT(t) N
#endif

inline idle(l_) { ld[l_].st = 0; ld[l_].t = 0; ld[l_].a = 0; ld[l_].b = 0; ld[l_].on = 0; ld[l_].was = 0 }
#if OVER == 3
#define UNANSWERED(l) ld[l].la = ld[l].lb; ld[l].lwas = 0
#else
#define UNANSWERED(l)
#endif
inline noLate(l_) { ld[l_].late = 0; ld[l_].lt = 0; ld[l_].lb = 0; ld[l_].lon = 0; UNANSWERED(l_) }
inline dropLate(l_) { if :: M != PERMIT || ld[l_].late != 2 -> noLate(l_) :: else fi }
inline keepLate(l_, t_, b_, on_) { ld[l_].late = 1; ld[l_].lt = t_; ld[l_].lb = b_; ld[l_].lon = on_; UNANSWERED(l_) }
inline giveUp(l_) {             /* of two writes one is kept; one that can only be refused is dropped */
  if :: ld[l_].st == 2 && ld[l_].on >= rv[ld[l_].t] -> keepLate(l_, ld[l_].t, ld[l_].b, ld[l_].on)
     :: ld[l_].st != 2 || ld[l_].on < rv[ld[l_].t] || ld[l_].late -> skip fi }
inline age() { i = 0;
  do :: i < NL*NT -> if :: OLD(i/NT, i%NT) -> ld[i/NT].next[i%NT] = 0; ld[i/NT].rev[i%NT] = 0 :: else fi;
                     if :: ld[i/NT].late && ld[i/NT].lt == i%NT && ld[i/NT].lon < rv[i%NT] -> dropLate(i/NT) :: else fi; i++
     :: else -> break od; i = 0 }
inline written(t_, b_) { seq++; nxt[t_] = b_; rv[t_] = seq; age() }
inline give(t_, a_, b_) { assert(M != REACH || dec < 2 || restores < TWICE); assert(!(granted[t_] & MASK(a_, b_)));
  granted[t_] = granted[t_] | MASK(a_, b_) }
inline grant(l_) { give(ld[l_].t, ld[l_].a, ld[l_].b); idle(l_) }
inline emptyCache(l_) { t = 0;
  do :: t < NT -> ld[l_].next[t] = 0; ld[l_].rev[t] = 0; t++ :: else -> break od; t = 0 }
inline endPoll(l_) { ld[l_].asks = 0; ld[l_].p = 0; ld[l_].pw = 0; ld[l_].ps = 0; ld[l_].pd = 0; ld[l_].pf = 0 }
#ifdef SLOW
inline endRead(l_) { ld[l_].reads = 0; ld[l_].rt = 0; ld[l_].rn = 0; ld[l_].rr = 0; ld[l_].rc = 0 }
#else
inline endRead(l_) { skip }
#endif
inline overtake(l_) {           /* all in flight counts no more */
  if :: M != FLIGHT -> if :: ld[l_].st > 1 -> giveUp(l_); idle(l_) :: else fi; UNANSWERED(l_); endRead(l_) :: else fi }
inline putBack(l_) {            /* writes an entry that the register lacks, under the permit of the poll */
#if TWICE || LOST
  select(t : 0 .. NT-1);
  if :: !rv[t] && ld[l_].next[t] -> keepLate(l_, t, ld[l_].pf, 0); ld[l_].late = 2 :: else fi; t = 0
#endif
  skip }
inline judge(l_) {
  if :: ld[l_].ps -> ld[l_].ok = 0
     :: !ld[l_].ps && TAKES(l_) -> ld[l_].set = ld[l_].set | (1 << ld[l_].pd); ld[l_].stop = 0; t = 0;
        do :: t < NT -> if :: THERE(t, ld[l_].pf) < ld[l_].next[t] && M != COMPARE -> ld[l_].stop = 1 :: else fi; t++
           :: else -> break od; t = 0; overtake(l_);
        if :: ld[l_].stop -> ld[l_].ok = 0
           :: else -> putBack(l_); emptyCache(l_); ld[l_].first = ld[l_].pf; ld[l_].ok = 1;
                      ld[l_].seen = (M == HIGH -> MAX(ld[l_].seen, ld[l_].p) : ld[l_].p) fi
     :: !ld[l_].ps && !TAKES(l_) -> ld[l_].set = ld[l_].set | (1 << ld[l_].pd);
        if :: LESS(l_) -> PROOF(l_)
           :: else -> ld[l_].seen = MAX(ld[l_].seen, ld[l_].p); ld[l_].first = ld[l_].pf; ld[l_].ok = !ld[l_].stop fi fi;
  endPoll(l_) }

proctype loader(byte l) { byte t, k, c, i;
end: do
#if !NC
  :: atomic { ld[l].st == 0 && MAYSEND(l) -> select(t : 0 .. NT-1); select(k : 1 .. K);           /* begin, send */
       if :: FIRST(l, t) + k <= LIMIT(t) -> ld[l].t = t; ld[l].a = FIRST(l, t); ld[l].b = ld[l].a + k;
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
#if OVER != 3
  :: atomic { ld[l].late && seq < R && ld[l].lon == rv[ld[l].lt] && !GONE ->                       /* arrives late */
       t = ld[l].lt; written(t, ld[l].lb); t = 0 }
#else
  :: atomic { ld[l].late && ld[l].st < 3 && seq < R && ld[l].lon == rv[ld[l].lt] ->               /* arrives, is answered */
       t = ld[l].lt; k = ld[l].la; c = (seq < ld[l].lwas && M != ACK); written(t, ld[l].lb);
       if :: k < nxt[t] && c -> PROOF(l)
          :: k < nxt[t] && !c -> SAW(l, seq); ld[l].next[t] = nxt[t]; ld[l].rev[t] = seq; give(t, k, nxt[t])
          :: else fi; t = 0; k = 0; c = 0 }
#endif
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
  :: atomic { (ld[l].st == 2 && !ld[l].late) || (ld[l].st > 2 && ld[l].st < 5 && OVER != 3) -> giveUp(l);   /* unknown */
       if :: M == BLUNT :: else -> ld[l].ok = 0 fi;
       if :: M == UNKNOWN -> grant(l) :: M == ADOPT -> ld[l].st = 5 :: else -> idle(l) fi }
  :: atomic { ld[l].st == 5 -> if :: nxt[ld[l].t] == ld[l].b -> grant(l) :: else -> idle(l) fi }
#ifndef SLOW
  :: atomic { ld[l].st < 2 && !ld[l].stop && !GONE -> select(t : 0 .. NT-1);                               /* read */
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
       endRead(l); t = 0 }
#endif
#if RULES
  :: atomic { !ld[l].asks && (NEW(l, dec) || (!ld[l].stop && (!ld[l].ok || ld[l].seen != seq || mark))) ->
       ld[l].asks = 1; ld[l].p = seq; ld[l].pw = ld[l].seen; ld[l].ps = (mark != 0);              /* poll */
       ld[l].pd = dec; ld[l].pf = low }
  :: atomic { ld[l].asks -> judge(l) }                                                            /* its reply */
#endif
#if CR
  :: atomic { (ld[l].file != ld[l].seen || ld[l].fset != ld[l].set) && M != FILE ->               /* note */
       ld[l].file = ld[l].seen; ld[l].fset = ld[l].set }
  :: atomic { starts < CR -> starts++; giveUp(l); idle(l); endPoll(l); emptyCache(l);             /* start */
       ld[l].ok = (M == START); ld[l].stop = 0; ld[l].seen = ld[l].file; ld[l].set = ld[l].fset; ld[l].first = 0 }
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
#define PERMITS(l) (ld[l].ok || ld[l].st > 1 || (ld[l].asks && !ld[l].ps))
#define AIM(T) MAX(T, (M == SAME -> 0 : known) + RAISE)
#define MINE (((mark == aim || M == OPEN) && born == restores) || M == LOOK)
#if TARGET
#define TIMED(t) (nxt[t] < aim)
#define SINCE(t) (aim > wr[t] -> aim - wr[t] : 0)
#define LIFTED(t) (TIMED(t) -> aim : nxt[t] + RAISE + SINCE(t))
#define WRITE(t) wr[t] = aim
#else
#define TIMED(t) true
#define LIFTED(t) (nxt[t] + RAISE)
#define WRITE(t)
#endif
#ifdef LATER
#define LATE(l)
#elif LOST == 1                                 /* updates of the old stream may arrive at any time */
#define LATE(l) if :: ld[l].lon -> skip :: else -> dropLate(l) fi
#else
#define LATE(l) dropLate(l)                     /* what has not arrived by now never does */
#endif
#define EXPIRED ((!PERMITS(0) && !PERMITS(NL-1)) || M == WAIT)
inline expire() { do :: t < NL && M != WAIT -> LATE(t); t++ :: else -> break od; t = 0 }
#if LOST
#define PUTBACK(t) (lst[t] >= aim -> lst[t] + RAISE + aim - W : aim)   /* an entry that the register lacks, raised */
inline fill() {                 /* writes the entries of the list that the register lacks, as they are there */
  do :: t < NT -> atomic { if :: lst[t] && !rv[t] -> to = lst[t]; written(t, to); WRITE(t); to = 0 :: else fi; t++ }
     :: else -> break od; t = 0 }
#endif
proctype admin(byte T; byte born) { byte t, i, aim, to;
#if LOST
  if :: M == BEFORE -> fill() :: else fi;
endLost:
  atomic { !GONE || EXPIRED || M == SOON; if :: GONE && M != SOON -> expire() :: else fi;          /* makes a new one */
    if :: GONE -> mark = (M != PLAIN); seq = (M == LOW -> 0 : H) :: else fi };
#endif
  atomic { born == restores && (TARGET || low == known || M == SAME);                             /* marks */
    aim = AIM(T); if :: mark >= aim && M != BEHIND -> aim = mark + 1 :: else fi; mark = (M == OPEN -> 0 : aim) }
end:
  atomic { EXPIRED; expire() }                                                                    /* waits */
  if :: MINE :: else -> goto over fi;
  do :: t < NT -> atomic { if :: rv[t] && (TIMED(t) || M != ABOVE) -> to = LIFTED(t); written(t, to); WRITE(t); to = 0
#if LOST
                              :: !rv[t] && lst[t] && M != AFTER -> to = PUTBACK(t); written(t, to); WRITE(t); to = 0
#endif
                              :: else fi; t++ }
     :: else -> break od;
#if LOST
  t = 0; if :: M == AFTER -> fill() :: else fi;
#endif
  atomic { if :: MINE -> t = 0; decs++; dec = 1 + decs; mark = 0;                                 /* decides */
      if :: M == FLOOR :: else -> low = aim fi; known = MAX(known, low);
#if TWICE
      do :: t < NT -> top[t] = (restores -> 0 : THERE(t, low) + RAISE); t++ :: else -> break od; t = 0
#endif
      :: else fi };
over: skip }
#endif

#if TWICE
#define AHEAD(l) (ld[l].seen > copySeq && (ld[l].file > copySeq || !CR))
proctype again() { byte l, t;
end:
  atomic { (TWICE == 1 -> dec > 1 : mark) && AHEAD(0) && AHEAD(NL-1); restores++; seq = copySeq; dec = DEC; mark = 0; low = 0;                      /* the copy again */
    do :: t < NT -> nxt[t] = copyNxt[t]; rv[t] = copyRv[t]; top[t] = 0;
#if TARGET
          wr[t] = W;
#endif
          t++
       :: else -> break od; t = 0;
    do :: l < NL -> idle(l); endPoll(l); ld[l].ok = 0;
          dropLate(l); l++ :: else -> break od;
    l = 0; run admin(TARGET, 1) } }
#endif

proctype configure() { byte m, d, f;                                                              /* reads, writes back */
  atomic { m = mark; d = dec; f = low }
  atomic { mark = m; dec = d; low = f } }

#if BACK
byte wt[H+1], wn[H+1];          /* the writes before; all is zero again when init is done */
#if (CR && KNOW) || defined(EACH)
#define KNOWN (M == FILE -> ld[l].seen : ld[l].file)
#else
#define KNOWN MAX(ld[l].seen, MAX(ld[l].rev[0], ld[l].rev[NT-1]))
#endif
#if LOST == 1
#define KNEW true
#elif defined(OWN)
#define KNEW (!(granted[0] >> ld[l].next[0]) && !(granted[NT-1] >> ld[l].next[NT-1]))
#elif !defined(KNOW)
#define KNEW true
#elif KNOW == 0
#define KNEW (KNOWN >= g[l])
#else
#define KNEW (KNOWN >= s + KNOW)
#endif
#if TWICE
#define COPY copySeq = s; t = 0; do :: t < NT -> copyNxt[t] = nxt[t]; copyRv[t] = rv[t]; t++ :: else -> break od; t = 0;
#else
#define COPY
#endif
inline past(t_) {               /* any entry of t_ that there was: k next, i revision */
  select(i : 0 .. h); if :: i > 0 && wt[i] == t_ -> k = wn[i] :: else -> i = 0; k = 0 fi }
inline before() {
  nxt[NT-1] = BEGIN;
  do :: h < H -> select(t : 0 .. NT-1); select(k : 1 .. K); select(l : 0 .. NL-1);
        if :: nxt[t] + k <= N -> h++; if :: granted[t] = granted[t] | MASK(nxt[t], nxt[t]+k); g[l] = h :: skip fi;
              nxt[t] = nxt[t] + k; rv[t] = h; wt[h] = t; wn[h] = nxt[t] :: else -> break fi
     :: h > 0 -> break od;
  select(s : 0 .. h-1); t = 0;
#if LOST
  select(q : s .. h);
  do :: i < q -> i++; lst[wt[i]] = wn[i] :: else -> break od; i = 0; q = 0;
#endif
  do :: t < NT*NC -> if :: NC > 1 || F -> select(k : 0 .. N-1) :: else -> k = nxt[t] fi; S[t] = k; t++
     :: else -> break od;
  l = 0;
  do :: l < NL -> t = 0;
        do :: t < NT -> past(t); ld[l].next[t] = k; ld[l].rev[t] = i; SAW(l, i); t++ :: else -> break od;
        if :: RULES -> select(k : 0 .. h); ld[l].seen = MAX(ld[l].seen, k) :: else fi;
#if CR
        select(k : 0 .. ld[l].seen); ld[l].file = (M == FILE -> 0 : k);
#endif
#if defined(BRIEF) || LOST == 1
        ld[l].ok = 1;
#endif
        if :: KNEW :: else -> bad = 1 fi;
#if OVER
        select(t : 0 .. NT-1); past(t);
        if :: k < N && OVER == 1 -> keepLate(l, t, k+1, i)
#if OVER == 3
           :: k < N -> keepLate(l, t, k+1, i); ld[l].la = k; ld[l].lwas = ld[l].seen
#endif
           :: k < N && OVER == 2 -> ld[l].st = 2; ld[l].t = t; ld[l].a = k; ld[l].b = k+1; ld[l].on = i;
              select(k : i .. ld[l].seen); ld[l].was = k
           :: skip fi;
#endif
        ld[l].set = (M == LATEST -> 2 : 3); ld[l].fset = (M == FORGET -> 1 : ld[l].set);
        g[l] = 0; l++ :: else -> break od; l = 0; t = 0;
  do :: t < NT -> nxt[t] = 0; rv[t] = 0; t++ :: else -> break od; i = 1;
  do :: i <= H -> if :: i <= s && LOST != 1 -> nxt[wt[i]] = wn[i]; rv[wt[i]] = i :: else fi; wt[i] = 0; wn[i] = 0; i++
     :: else -> break od;
  dec = DEC; seq = s; age();
#if LOST == 1
  mark = 255; seq = H;
#define LAST_TAG lst
#else
#define LAST_TAG rv
#endif
#if BEGIN
  bad = bad || !LAST_TAG[NT-1];
#endif
  COPY h = 0; s = 0; t = 0; k = 0 }
#endif

init { byte l, h, s, q, t, k, i, g[NL]; bool bad;
  atomic {
#if BACK
    before();
#else
    do :: l < NL -> ld[l].set = 1; ld[l].fset = 1; l++ :: else -> break od; l = 0;
#endif
    if :: bad
       :: else -> do :: l < NL -> run loader(l); l++ :: else -> break od; l = 0;
#if RAISE
          do :: l < ADMINS -> run admin(TARGET + ADMINS - 1 - l, 0); l++ :: else -> break od; l = 0;
#endif
#if TWICE
          run again();
#endif
          if :: M == CONFIG -> run configure() :: else fi
    fi } }
