/* Evidence: a register that went back, and processes that remember what it has
 * lost. Does a loader grant a number twice although one of them is asked?
 * (packages store/register and worker)
 * docs/proofs/evidence.md has the argument. What a loader concludes from its own
 * polls, conditions of writes, and what a raise does are in register.pml.
 *
 * A position is a floor and a sequence, compared in this order: POS(floor, seq)
 * is one number. The register has a position, and the next number of each tag.
 * Each write raises its sequence and the next number of one tag by 1. A decision
 * raises the floor, and lifts all tags above all that was written.
 *
 * A loader takes these steps:
 *
 *   start    loses all but its file. It adopts the register's position, unless
 *            its file contradicts it. Then it asks.
 *   asked    ends the question: all processes had the time to answer. It reads
 *            the proof. Only a poll that is sent after that permits a write.
 *   poll     requests the register's position
 *   note     writes to its file what it has seen
 *   load     receives the load of a worker, which carries the worker's position
 *            and its highest number of the tag. If that number is above what the
 *            loader has cached, it reads the entry. Then it writes.
 *   answer   grants the number to the worker, or burns it
 *   prove    leaves the proof, with the floor of the register, if it has stopped
 *            because of what it has seen itself
 *   cut      loses its connection. When it is back, it asks.
 *   accept   a decision that a poll shows: the stop ends, and it asks
 *
 * Evidence of its own is `seen`: a poll, or the reply to a write, that is below
 * what was seen when it was sent. Hearsay is `heard`: the highest position that
 * others claim. A poll or a reply that is below what was heard when it was sent
 * stops the loader as well. Only a decision or a restart ends that stop; only a
 * decision ends one by evidence of its own.
 *
 * A loader hears the positions of others at any time: when it asks, when they
 * are back, late, and several times. It reports what it has seen itself, and the
 * claim that has stopped it, if it has heard that from the claimant.
 *
 * A worker may be cut off or frozen, and may be replaced by a new one.
 *
 * Once, the register goes back to a copy of it that was taken before. Each
 * loader that has a connection has seen a write that was lost, because it polls
 * every second, and its permit has expired. So has the permit of each loader
 * when a decision is made. Both follow from the time that they take.
 *
 * Assumed: if the register went back, a loader's question ends only after it has
 * been told of a lost write, or if the proof or its file has it. With -DCUT,
 * nothing is assumed about answers.
 *
 * -DNL NT NW   loaders, tags, workers
 * -DR=n        at most n writes      -DCR=n   starts after the first
 * -DD=n        decisions
 * -DLIAR       A process claims what it likes. It may leave. A decision may be
 *              one against it: loaders that have accepted it ignore the liar.
 * -DCREATE=n   A command writes to the register n times, and asks nobody
 * -DNOTE -DCUTS   the steps note and cut
 * -DSLOW       the replies to polls and writes come in a later step
 *
 * Properties:
 *   1  No number of a tag is granted twice (not with CUT).
 *   2  No loader grants a number of a tag that is below one that a load has told
 *      it of, under the same floor.
 *   3  A loader stops by evidence of its own only if writes were lost, and by
 *      hearsay only if writes were lost or it was told a lie.
 *
 * Abstracted: clocks. A claim is heard at the moment that it is made; an older
 * one claims less. The number of entries. Claims are not signed, so the liar can
 * use any name; here it has one.
 *
 * Mutants, -DM=x:
 *   EARLY    grants before it has asked
 *   RETURN   does not ask when it was cut off
 *   ONCE     does not ask when it has accepted a decision
 *   KEEPS    the permit of a poll from before the question ended stays valid
 *   SEQ      compares the sequence whatever the floor
 *   NEWEST   compares the sequence only, of claims under its own floor
 *   STALE    compares a poll with what was heard when its reply came
 *   SEEN     what was heard is seen
 *   NOTED    what was heard is noted in the file
 *   IDLE     a loader does not poll while it has nothing to do
 *   FORGET   does not read the proof
 *   SOON     reads it when it starts, and not when it has asked
 *   FILE     starts without the file
 *   EVER     the proof holds under another floor
 *   NEXT     loads carry no number
 *   CACHE    compares the load's number with the cache, and does not read
 *   IGNORE   does not ignore the liar after a decision against it
 * Variants:
 *   BURN     a reply below what was heard is burnt, and does not stop the loader;
 *            passes
 *   REACH    fails if a loader grants after a decision that followed a loss
 */
#ifndef NL
#define NL 2
#endif
#ifndef NT
#define NT 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef R
#define R 4
#endif
#ifndef CR
#define CR 1
#endif
#ifndef D
#define D 0
#endif
#ifndef CREATE
#define CREATE 0
#endif
#ifdef CUT
#define PREMISE false
#else
#define PREMISE true
#endif
#ifndef M
#define M NONE
#endif
mtype = { NONE, EARLY, RETURN, KEEPS, BURN, SEQ, NEWEST, STALE, SEEN, NOTED, IDLE, FORGET, SOON, FILE, EVER, NEXT, CACHE,
          IGNORE, ONCE, REACH };

#define POS(f, s) ((f)*16 + (s))
#define FLOOR(p) ((p)/16)
#define SEQUENCE(p) ((p)%16)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define HAS(set, i) (((set) >> (i)) & 1)
#define LOST (lost && FLOOR(reg) <= FLOOR(lost))
#define PROOF (proof && (proof == FLOOR(reg) + 1 || M == EVER))
/* does a claim c contradict a register at p? */
#define AGAINST(c, p) (M == SEQ -> SEQUENCE(c) > SEQUENCE(p) || FLOOR(c) > FLOOR(p) : \
                      (M == NEWEST -> FLOOR(c) == FLOOR(p) && (c) > (p) : (c) > (p)))

#ifdef SLOW
#define SLOWLY true
#else
#define SLOWLY false
#endif
/* is the reply to a write not above what was heard? */
#define NOTABOVE(l) (ld[l].rev <= ld[l].wh && (M != NEWEST || FLOOR(ld[l].wh) == FLOOR(ld[l].rev)))

#define DOWN 0                  /* st of a loader */
#define ASKS 1
#define ON 2
#define OFF 3                   /* cut off */

#define HEARSAY 1               /* why it has stopped */
#define OWN 2

typedef loader_t {
  byte st, stop;
  byte seen, file, heard;       /* positions */
  bool first, lie;              /* heard from the claimant itself; from the liar */
  bool ignores;
  bool ok;                      /* has a permit */
  bool asks; byte p, pw, ph; bool pl, pi;     /* a poll: its reply; seen and heard when sent; from the liar; decided against it */
  byte w, t, n, rev, ww, wh; bool wl;   /* a write: worker and 1, tag, number, reply; seen and heard when sent; from the liar */
  bool pb, wb;                  /* writes were lost when they were sent */
  byte cache[NT], told[NT] }
typedef worker_t { byte pos, high[NT] }
loader_t ld[NL];
worker_t wk[NW];
byte reg = POS(0, 1), nxt[NT];
byte copy, copyNxt[NT];         /* the copy */
bool back, against, copyAgainst;
byte lost, proof;               /* the position before it went back; its floor and 1 */
byte top[NT], floors, writes, starts, created;
short granted[NT];
bool liar = 1;

inline endWrite(l_) {
  ld[l_].w = 0; ld[l_].t = 0; ld[l_].n = 0; ld[l_].rev = 0; ld[l_].ww = 0; ld[l_].wh = 0; ld[l_].wl = 0; ld[l_].wb = 0 }
inline endPoll(l_) { ld[l_].asks = 0; ld[l_].p = 0; ld[l_].pw = 0; ld[l_].ph = 0; ld[l_].pl = 0; ld[l_].pi = 0; ld[l_].pb = 0 }
inline unheard(l_) { ld[l_].heard = 0; ld[l_].first = 0; ld[l_].lie = 0 }
inline forgetTags(l_) { i = 0; do :: i < NT -> ld[l_].cache[i] = 0; ld[l_].told[i] = 0; i++ :: else -> break od; i = 0 }
inline stops(l_, why_, fine_) {
  assert(fine_);                                                        /* property 3 */
  ld[l_].ok = 0; ld[l_].stop = MAX(ld[l_].stop, why_); endWrite(l_); forgetTags(l_);
  if :: ld[l_].stop == OWN -> unheard(l_) :: else fi }
inline hear(l_, c_, first_, lie_) {
  if :: ld[l_].stop != OWN && c_ > ld[l_].heard && (!lie_ || !ld[l_].ignores) && (c_ > ld[l_].seen || M == SEQ) ->
        ld[l_].heard = c_; ld[l_].first = first_; ld[l_].lie = lie_;
        if :: M == SEEN -> ld[l_].seen = c_ :: M == NOTED -> ld[l_].file = c_ :: else fi
     :: else fi }
inline accept(l_) {             /* a decision */
  ld[l_].seen = ld[l_].p; ld[l_].stop = 0; ld[l_].ok = 0; ld[l_].ignores = ld[l_].pi && M != IGNORE;
  if :: FLOOR(ld[l_].heard) <= FLOOR(ld[l_].p) || (ld[l_].pi && ld[l_].lie) -> unheard(l_) :: else fi;
  forgetTags(l_); endWrite(l_);
  if :: M != ONCE -> ld[l_].st = ASKS :: else fi }
inline judge(l_) {
  if :: M == STALE -> ld[l_].ph = ld[l_].heard; ld[l_].pl = ld[l_].lie :: else fi;
  if :: AGAINST(ld[l_].ph, ld[l_].p) && !(ld[l_].pl && ld[l_].pi && M != IGNORE) && ld[l_].p >= ld[l_].pw ->
        stops(l_, HEARSAY, ld[l_].pb || (ld[l_].pl && !ld[l_].pi))
     :: else ->
        if :: FLOOR(ld[l_].p) > FLOOR(ld[l_].seen) -> accept(l_)
           :: FLOOR(ld[l_].p) <= FLOOR(ld[l_].seen) && ld[l_].p < ld[l_].pw -> stops(l_, OWN, ld[l_].pb)
           :: else -> ld[l_].seen = MAX(ld[l_].seen, ld[l_].p);
              if :: !ld[l_].stop && (ld[l_].st == ON || M == KEEPS) -> ld[l_].ok = 1 :: else fi fi fi;
  endPoll(l_) }
inline grant(l_) {
  assert(!HAS(granted[ld[l_].t], ld[l_].n) || !PREMISE);                /* 1 */
  assert(ld[l_].n >= ld[l_].told[ld[l_].t]);                            /* 2 */
  assert(M != REACH || !lost || LOST);
  granted[ld[l_].t] = granted[ld[l_].t] | (1 << ld[l_].n);
  ld[l_].seen = MAX(ld[l_].seen, ld[l_].rev); ld[l_].cache[ld[l_].t] = ld[l_].n + 1;
  w = ld[l_].w - 1;
  if :: FLOOR(ld[l_].rev) >= FLOOR(wk[w].pos) ->
        wk[w].pos = MAX(wk[w].pos, ld[l_].rev); wk[w].high[ld[l_].t] = ld[l_].n + 1
     :: skip fi;                                                        /* or is lost */
  w = 0; endWrite(l_) }

inline answered(l_) {
  if :: ld[l_].rev <= ld[l_].ww -> stops(l_, OWN, ld[l_].wb)
     :: ld[l_].rev > ld[l_].ww && NOTABOVE(l_) && M != BURN -> stops(l_, HEARSAY, ld[l_].wb || ld[l_].wl)
     :: ld[l_].rev > ld[l_].ww && NOTABOVE(l_) && M == BURN -> ld[l_].ok = 0; endWrite(l_)
     :: else -> grant(l_) fi }

proctype loader(byte l) { byte i, w, t, k;
end: do
  :: atomic { ld[l].st == DOWN && (starts < NL + CR) -> starts++;                                 /* start */
       ld[l].st = ASKS; ld[l].seen = MAX(ld[l].file, POS(FLOOR(reg), 0));
       if :: M == FILE || FLOOR(reg) > FLOOR(ld[l].file) -> ld[l].seen = POS(FLOOR(reg), 0) :: else fi;
       ld[l].ignores = against && M != IGNORE;
       if :: ld[l].seen > reg -> stops(l, OWN, LOST)
          :: ld[l].seen <= reg && PROOF && M == SOON -> stops(l, OWN, LOST)
          :: else -> ld[l].seen = reg fi }
  :: atomic { ld[l].st != DOWN && starts < NL + CR -> ld[l].st = DOWN; ld[l].stop = 0; ld[l].seen = 0;  /* dies */
       ld[l].ok = 0; ld[l].ignores = 0; unheard(l); endPoll(l); endWrite(l); forgetTags(l) }
  :: atomic { ld[l].st == ASKS && (M == EARLY || !PREMISE || !LOST || ld[l].heard > reg || ld[l].file > reg || PROOF
         || ld[l].seen > reg) -> ld[l].st = ON;                                                   /* asked */
       if :: M != KEEPS -> ld[l].ok = 0; endPoll(l) :: else fi;
       if :: PROOF && M != FORGET && M != SOON -> stops(l, OWN, LOST) :: else fi }
  :: atomic { ld[l].st == ASKS || ld[l].st == ON;                                                 /* poll */
       if :: !ld[l].asks -> ld[l].asks = 1; ld[l].p = reg; ld[l].pi = against; ld[l].pw = ld[l].seen;
             ld[l].ph = ld[l].heard; ld[l].pl = ld[l].lie; ld[l].pb = LOST;
             if :: SLOWLY :: !SLOWLY -> judge(l) fi
          :: ld[l].asks -> judge(l) fi }
#ifdef NOTE
  :: atomic { ld[l].st != DOWN && !ld[l].stop && FLOOR(reg) == FLOOR(ld[l].seen) && ld[l].file < ld[l].seen ->    /* note */
       ld[l].file = ld[l].seen }
#endif
  :: atomic { ld[l].st == ON && ld[l].ok && !ld[l].w && writes < R -> select(w : 0 .. NW-1); select(t : 0 .. NT-1);  /* load */
       hear(l, wk[w].pos, 1, 0);
       if :: FLOOR(wk[w].pos) == FLOOR(ld[l].seen) && wk[w].pos ->
             ld[l].told[t] = MAX(ld[l].told[t], wk[w].high[t]);
             if :: wk[w].high[t] > ld[l].cache[t] && M != NEXT ->
                   if :: M != CACHE -> ld[l].cache[t] = nxt[t] :: else fi;
                   if :: ld[l].cache[t] < wk[w].high[t] -> stops(l, HEARSAY, LOST || FLOOR(reg) != FLOOR(ld[l].seen)); goto done :: else fi
                :: else fi
          :: else fi;
       ld[l].w = w + 1; ld[l].t = t; ld[l].n = nxt[t]; ld[l].ww = ld[l].seen; ld[l].wh = ld[l].heard; ld[l].wl = ld[l].lie;
       writes++; nxt[t]++; reg++; ld[l].rev = reg; ld[l].wb = LOST; top[t] = MAX(top[t], nxt[t]);
       if :: SLOWLY :: !SLOWLY -> answered(l) fi;
done:  w = 0; t = 0 }
  :: atomic { ld[l].w -> answered(l) }                                                           /* answer */
  :: atomic { ld[l].stop == OWN && ld[l].st != OFF && LOST && !proof -> proof = FLOOR(reg) + 1 }  /* prove */
#ifdef CUTS
  :: atomic { ld[l].st == ON || ld[l].st == ASKS -> ld[l].st = OFF; ld[l].ok = 0; endPoll(l); endWrite(l) }   /* cut */
  :: atomic { ld[l].st == OFF -> ld[l].st = (M == RETURN -> ON : ASKS) }
#endif
  :: atomic { ld[l].st == ASKS || ld[l].st == ON -> select(k : 0 .. NL-1);                        /* tells: a loader */
       if :: k != l && (ld[k].st == ASKS || ld[k].st == ON) ->
             hear(l, ld[k].seen, 1, 0);
             if :: ld[k].stop == HEARSAY && ld[k].first -> hear(l, ld[k].heard, 0, ld[k].lie) :: else fi
          :: else fi; k = 0 }
  :: atomic { ld[l].st == ASKS || ld[l].st == ON -> select(w : 0 .. NW-1);                        /* a worker */
       hear(l, wk[w].pos, 1, 0); w = 0 }
#ifdef LIAR
  :: atomic { liar && (ld[l].st == ASKS || ld[l].st == ON) ->
       if :: k = POS(FLOOR(reg), 15) :: k = POS(floors + 1, 1) fi; hear(l, k, 1, 1); k = 0 }
#endif
  od }

proctype worker(byte w) { byte i;
end: do
  :: atomic { wk[w].pos && starts < NL + CR -> starts++; wk[w].pos = 0; do :: i < NT -> wk[w].high[i] = 0; i++ :: else -> break od; i = 0 }   /* is replaced */
  od }

#define SAW(l) (ld[l].st == DOWN || ld[l].st == OFF || ld[l].seen > copy || M == IDLE)
inline expire() { i = 0;
  do :: i < NL -> ld[i].ok = 0; endPoll(i); endWrite(i); i++ :: else -> break od; i = 0 }
proctype world() { byte i, d;
end: do
  :: atomic { !copy -> copy = reg; copyAgainst = against;                                         /* a copy is taken */
       do :: i < NT -> copyNxt[i] = nxt[i]; i++ :: else -> break od; i = 0 }
  :: atomic { copy && !back && reg > copy && SAW(0) && SAW(NL-1) ->                               /* the register goes back */
       back = 1; lost = reg; reg = copy; against = copyAgainst; i = 0;
       do :: i < NT -> nxt[i] = copyNxt[i]; copyNxt[i] = 0; i++ :: else -> break od; expire() }
  :: atomic { d < D -> d++; floors++; reg = POS(floors, SEQUENCE(reg) + 1); i = 0;                /* a decision */
       do :: i < NT -> nxt[i] = top[i]; i++ :: else -> break od;
#ifdef LIAR
       if :: against = 1 :: skip fi;
#endif
       expire() }
#ifdef LIAR
  :: atomic { liar -> liar = 0 }
#endif
  :: atomic { created < CREATE -> created++; reg++ }                                              /* a command writes */
  od }

init { byte i; atomic {
  do :: i < NL -> run loader(i); i++ :: else -> break od; i = 0;
  do :: i < NW -> run worker(i); i++ :: else -> break od; i = 0;
  run world() } }
