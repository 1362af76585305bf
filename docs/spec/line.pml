/* Line: after a decision has succeeded, does a worker issue a number from before
 * it? (packages store/register, allocator and worker)
 * docs/proofs/register.md has the argument, under Lines.
 *
 * One tag. A line is what the register grants from one decision to the next. Its
 * floor is the lowest first number of new tags, which each decision raises. Line
 * d has the numbers from d*B to d*B + B-1, because a decision lifts the tag above
 * all that was granted before: see register.pml.
 *
 * A loader takes these steps:
 *
 *   poll     adopts the floor, and gets a permit, unless a raise has its mark
 *   expire   loses the permit
 *   write    takes a load that has arrived, and reserves the next number for it
 *   answer   sends the grant. It carries the floor that the loader had adopted
 *            when it wrote. Grants arrive at any time after, in any order, any
 *            number of times, or never.
 *   lose     the write's answer, so that the number is burnt
 *
 * A worker:
 *
 *   ask      sends a load, under the load number that it has now. Its message
 *            arrives at any time after, any number of times, or never.
 *   receive  a grant. A higher floor than the worker's own is learned, then the
 *            grant is kept; with a lower floor it is burnt. So is a number that
 *            is not above all that the worker ever kept.
 *   learn    a floor: the worker voids all that it holds, and gives its loads a
 *            new number
 *   watch    reads the key `decided`, and learns its floor if that is higher
 *   issue    the lowest number that it holds
 *   leave    is cut off or frozen: nothing reaches it
 *   return   can be reached and asked again, but does not issue
 *   read     sends a read of the key, whose reply comes in a later step
 *   gate     receives the reply, learns its floor if that is higher, and issues
 *            again. A reply to a read from before the return does not count.
 *   restart  a new process in its place, which knows nothing, and has returned
 *
 * A command, D times, which may die after each step:
 *
 *   mark     no loader gets a permit any more
 *   wait     until no loader has one
 *   decide   begins the next line, and removes the mark
 *   write    the key, which only rises. If the command dies, the write may
 *            arrive at any time after.
 *   ask      goes on when a worker has the new floor or cannot be reached
 *   succeed  after it has asked all workers
 *
 * Once, at any time without a mark, the register goes back to an earlier number
 * of its line. Nobody notices, and so two workers get the same number.
 *
 * -DOLD      Loader 0 is of version 0.2.0, whose grants carry no floor. They have
 *            the number of their load instead, and count if the worker's loads
 *            still have that number.
 * -DHTTP     A worker that is cut off issues to callers beside it.
 * -DCOPY     The register goes back to before its latest decision, and the key
 *            may go back with it. No loader has a permit then.
 * -DAFTER    Only what is issued after a success is judged.
 * -DSTAY     No worker leaves or restarts.
 *
 * Properties. `done` is the line whose command has succeeded, unless the register
 * went back since.
 *   1  A number is issued twice only if its line went back; once a command has
 *      succeeded, only by a worker that cannot be reached.
 *   2  Once a command has succeeded, a worker that can be reached issues no number
 *      of an earlier line, whether others had it or not. So the IDs of a tag that
 *      was trend before the decision, and is strict after it, do not descend.
 *   3  A worker that learned a floor, or received a grant with it, issues no number
 *      of an earlier line. This holds without a success, too.
 *   4  No worker has a floor above the register's (not with COPY): it would burn
 *      all grants.
 *
 * Bounds: NW workers, NL loaders, B numbers in a line, D commands, one going back.
 *
 * Abstracted: a grant is one number. Conditions of writes: see register.pml. A
 * command waits for a worker without end, and a worker that leaves always
 * notices it when it returns.
 *
 * Not here: numbers that a worker took before it learned of a decision, and whose
 * reply it sends afterwards (mutant REPLY); what callers hold; workers of version
 * 0.2.0.
 *
 * Mutants, -DM=x:
 *   KEEP     a worker that learns a floor keeps what it holds
 *   LATE     a grant with a lower floor is used
 *   BARE     a grant without a floor is used, whatever its load (OLD)
 *   OLDNUM   a load that is open keeps its number when a floor is learned (OLD)
 *   JOIN     a loader adds a load that comes after its write (OLD)
 *   STAMP    a grant carries the floor that the loader has when it answers
 *   NOGATE   a worker that returns issues before it reads the key
 *   STALE    the gate's read shows an older value
 *   OLDREAD  a reply counts although its read is from before the return
 *   SHOWN    a worker that returns reads the key before it can be asked
 *   EARLY    the key is written before the decision
 *   NOKEY    the command does not write the key before it succeeds
 *   DOWN     the key is written without comparing
 *   SAME     the second decision has the floor of the first
 *   NOASK    the command succeeds without asking workers
 *   FIRST    a worker shows a floor before it has voided what it holds
 *   REPLY    a number counts as issued when its reply is sent
 *   KEYS     workers learn from the key alone; passes with AFTER
 *   GRANTS   workers learn from grants alone; passes with STAY
 * Variants:
 *   WAIT     decides while loaders have permits; passes
 *   REACH    fails if a number that a success allows is issued after the register
 *            went back, to show that it is
 */
#ifndef NW                      /* give all of these or none */
#define NW 2
#define NL 1
#define B 1
#define D 1
#endif
#ifdef OLD
#define BARELY(l) ((l) == 0)
#define ASKED(w, k) HAS(wk[w].asked, k)
#else
#define BARELY(l) false
#define ASKED(w, k) ((k) == 0)  /* nobody looks at the number of a load */
#endif
#ifdef HTTP
#define BESIDE true
#else
#define BESIDE false
#endif
#ifdef COPY
#define COPIED true
#else
#define COPIED false
#endif
#ifdef AFTER
#define ALWAYS false
#else
#define ALWAYS true
#endif
#ifndef M
#define M NONE
#endif
mtype = { NONE, KEEP, LATE, BARE, OLDNUM, JOIN, STAMP, NOGATE, STALE, OLDREAD, SHOWN, EARLY, NOKEY, DOWN, SAME,
          NOASK, FIRST, REPLY, KEYS, GRANTS, WAIT, REACH };
#define N (B*(D+1))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define HAS(set, i) (((set) >> (i)) & 1)
#define FLOOR(line) (M == SAME && (line) == 2 -> 1 : (line))
#define LINE(n) ((n)/B)
#define SLOT(n, f) ((n)*(D+1) + (f))
#define REACHED(w) (wk[w].st == ON || wk[w].st == BACK)
#define PERMITTED (ld[0].ok || ld[NL-1].ok)
#define BURNT(w, n, f) ((f < wk[w].floor && M != LATE) || (f <= wk[w].floor && n < wk[w].above))
#define BURNTBARE(w, n, k) (n < wk[w].above || (k != wk[w].num && M != BARE && M != OLDNUM))

#define ON 0                    /* issues */
#define AWAY 1                  /* cannot be reached */
#define BACK 2                  /* can be reached, has not read the key */
#define HIDDEN 3                /* has read it, cannot be reached: SHOWN */

typedef worker_t {
  byte st, floor, num, met;     /* num: the number of its loads; met: the highest floor in a grant */
  byte above;                   /* all that it ever kept */
  byte read;                    /* the key as it was read, and 1 */
  bool due;                     /* FIRST: has not voided yet */
  byte out;                     /* REPLY: what it took, and 1 */
  short holds, asked;
  int grants, bare }            /* sent to it: SLOT(number, floor or load) */
typedef loader_t { bool ok; byte floor, n, carries, w, num }      /* n: what it wrote, and 1 */
worker_t wk[NW];
loader_t ld[NL];
byte line, next, key, late, done, decisions, i, j;
bool mark, clean;               /* clean: the register did not go back since the latest decision */
byte went;                      /* the lines that it granted again */
short issued;                   /* of the other lines */

inline tidy(w_) {               /* deletes messages that can only be burnt */
  do :: i < N -> do :: j <= D ->
       if :: BURNT(w_, i, j) -> wk[w_].grants = wk[w_].grants & ~(1 << SLOT(i, j)) :: else fi;
       if :: BURNTBARE(w_, i, j) -> wk[w_].bare = wk[w_].bare & ~(1 << SLOT(i, j)) :: else fi; j++
     :: else -> break od; j = 0; i++
     :: else -> break od; i = 0 }
inline learn(w_, f_) {
  assert(f_ <= FLOOR(line) || COPIED);                                         /* property 4 */
  wk[w_].floor = f_;
  if :: M != OLDNUM || !wk[w_].asked -> wk[w_].num = f_ :: else fi;
  if :: M != OLDNUM && M != BARE -> wk[w_].asked = 0 :: else fi;
  if :: M == FIRST -> wk[w_].due = 1 :: M != FIRST && M != KEEP -> wk[w_].holds = 0 :: M == KEEP fi; tidy(w_) }
inline learnKey(w_, f_) { if :: f_ > wk[w_].floor && M != GRANTS -> learn(w_, f_) :: else fi }
inline keep(w_, n_) {
  if :: n_ >= wk[w_].above -> wk[w_].holds = wk[w_].holds | (1 << n_); wk[w_].above = n_ + 1; tidy(w_) :: else fi }
inline judge(w_, n_) {
  assert(!ALWAYS || FLOOR(LINE(n_)) >= MAX(wk[w_].floor, wk[w_].met));         /* 3 */
  assert(!done || wk[w_].st == AWAY || LINE(n_) >= done);                      /* 2 */
  assert(!HAS(issued, n_));                                                    /* 1 */
  assert(M != REACH || !done || !went || LINE(n_) < done);
  if :: HAS(went, LINE(n_)) :: else -> issued = issued | (1 << n_) fi }
inline unwritten(l_) { ld[l_].n = 0; ld[l_].carries = 0; ld[l_].w = 0; ld[l_].num = 0 }
inline forget(w_) {             /* messages to the old process reach nobody */
  wk[w_].floor = 0; wk[w_].above = 0; wk[w_].num = 0; wk[w_].met = 0; wk[w_].read = 0; wk[w_].due = 0; wk[w_].out = 0;
  wk[w_].holds = 0; wk[w_].asked = 0; wk[w_].grants = 0; wk[w_].bare = 0;
  do :: i < NL -> if :: ld[i].n && ld[i].w == w_ -> unwritten(i) :: else fi; i++ :: else -> break od; i = 0 }

proctype worker(byte w) { byte n, f;
end: do
#ifdef OLD
  :: atomic { wk[w].st == ON && !HAS(wk[w].asked, wk[w].num) ->                                   /* ask */
       wk[w].asked = wk[w].asked | (1 << wk[w].num) }
  :: atomic { REACHED(w) && wk[w].bare -> select(n : 0 .. N-1); select(f : 0 .. D);               /* receive */
       if :: HAS(wk[w].bare, SLOT(n, f)) && (f == wk[w].num || M == BARE) -> keep(w, n) :: else fi; n = 0; f = 0 }
#endif
  :: atomic { REACHED(w) && wk[w].grants -> select(n : 0 .. N-1); select(f : 0 .. D);             /* receive */
       if :: HAS(wk[w].grants, SLOT(n, f)) -> wk[w].met = MAX(wk[w].met, f);
             if :: f > wk[w].floor && M != KEYS -> learn(w, f) :: else fi;
             if :: f >= wk[w].floor || M == LATE -> keep(w, n) :: else fi
          :: else fi; n = 0; f = 0 }
  :: atomic { wk[w].st == ON && key > wk[w].floor -> learnKey(w, key) }                                 /* watch */
  :: atomic { wk[w].holds && !wk[w].out && (wk[w].st == ON || (wk[w].st == AWAY && BESIDE)) ->    /* issue */
       do :: !HAS(wk[w].holds, n) -> n++ :: else -> break od;
       wk[w].holds = wk[w].holds & ~(1 << n);
       if :: M == REPLY -> wk[w].out = n + 1 :: else -> judge(w, n) fi; n = 0 }
  :: atomic { wk[w].out && wk[w].st == ON -> n = wk[w].out - 1; judge(w, n); wk[w].out = 0; n = 0 }
  :: atomic { wk[w].due -> wk[w].due = 0; wk[w].holds = 0 }                                       /* voids late */
#ifndef STAY
  :: atomic { REACHED(w) -> wk[w].st = AWAY; if :: M != OLDREAD -> wk[w].read = 0 :: else fi }    /* leave */
  :: atomic { wk[w].st == AWAY -> if :: M == NOGATE -> wk[w].st = ON                              /* return */
                                     :: M == SHOWN -> learnKey(w, key); wk[w].st = HIDDEN
                                     :: else -> wk[w].st = BACK fi }
  :: atomic { wk[w].st == HIDDEN -> wk[w].st = ON }
  :: atomic { wk[w].st == BACK && !wk[w].read -> wk[w].read = 1 + (M == STALE -> 0 : key) }       /* read */
  :: atomic { wk[w].st == BACK && wk[w].read -> learnKey(w, wk[w].read - 1); wk[w].read = 0;      /* gate */
       wk[w].st = ON }
  :: atomic { forget(w); if :: M == SHOWN -> learnKey(w, key); wk[w].st = HIDDEN                        /* restart */
                            :: else -> wk[w].st = BACK fi }
#endif
  od }

inline pick() {                 /* a load that has arrived, of worker w under number k */
  select(w : 0 .. NW-1); select(k : 0 .. D) }

proctype loader(byte l) { byte w, k;
end: do
  :: atomic { !mark && !ld[l].ok -> ld[l].ok = 1; ld[l].floor = FLOOR(line) }                     /* poll */
  :: atomic { ld[l].ok -> ld[l].ok = 0; ld[l].floor = 0 }                                         /* expire */
  :: atomic { ld[l].ok && !ld[l].n && next < (line+1)*B -> pick();                                /* write */
       if :: ASKED(w, k) -> ld[l].n = next + 1; ld[l].carries = ld[l].floor; ld[l].w = w; ld[l].num = k; next++
          :: else fi; w = 0; k = 0 }
  :: atomic { ld[l].n -> w = ld[l].w; k = ld[l].num;                                              /* answer */
       if :: M == JOIN -> pick() :: else fi;
       if :: M == JOIN && !ASKED(w, k) -> goto joined :: else fi;
       if :: BARELY(l) -> wk[w].bare = wk[w].bare | (1 << SLOT(ld[l].n - 1, k))
          :: else -> k = (M == STAMP -> ld[l].floor : ld[l].carries);
                     wk[w].grants = wk[w].grants | (1 << SLOT(ld[l].n - 1, k)) fi;
       tidy(w); unwritten(l);
joined: w = 0; k = 0 }
  :: atomic { ld[l].n -> unwritten(l) }                                                           /* lose */
  od }

inline writeKey(f_) { key = (M == DOWN -> f_ : MAX(key, f_)) }
proctype command() { byte c, w, f;
end: do
  :: atomic { c < D -> c++; mark = 1 };                                                           /* mark */
endWait:
     if :: goto dies :: atomic { !PERMITTED || M == WAIT; f = FLOOR(decisions + 1);               /* wait */
       if :: M == EARLY -> writeKey(f) :: else fi } fi;
     if :: goto dies :: atomic { decisions++; line = decisions; next = line*B; mark = 0; clean = 1 } fi;    /* decide */
     if :: M == NOKEY || M == EARLY                                                               /* write */
        :: M != NOKEY && M != EARLY -> writeKey(f)
        :: atomic { late = f; goto dies } fi;
endAsk:
     do :: atomic { w < NW && (!REACHED(w) || wk[w].floor >= f || M == NOASK) -> w++ }            /* ask */
        :: goto dies
        :: atomic { w == NW -> if :: clean -> done = line :: else fi; break } od;                 /* succeed */
dies: atomic { w = 0; f = 0 }
  :: atomic { late -> writeKey(late); late = 0 }
  od }

proctype goBack() { byte l;
end:
  atomic { !mark && (COPIED -> line > 0 : next > line*B) -> done = 0; clean = 0;
#ifdef COPY
    line--; select(next : line*B .. (line+1)*B);
    if :: key = (key > FLOOR(line) -> FLOOR(line) : key) :: skip fi;
    do :: l < NL -> ld[l].ok = 0; ld[l].floor = 0; l++ :: else -> break od; l = 0;
#else
    select(next : line*B .. next-1);
#endif
    went = went | (1 << line); issued = issued & ~(((1 << B) - 1) << line*B) } }

init { byte w, l; atomic {
  do :: w < NW -> run worker(w); w++ :: else -> break od;
  do :: l < NL -> run loader(l); l++ :: else -> break od;
  run command(); run goBack(); w = 0; l = 0 } }
