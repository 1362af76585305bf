/* Strict: is each ID of a strict tag above all that were received before its
 * request was sent, and is none served twice? (packages allocator and worker)
 * docs/proofs/strict.md has the argument.
 *
 * One tag. These steps are taken at any time, by any worker or loader:
 *
 *   arrive   a request arrives at a worker, which parks it
 *   load     a worker with fewer than FLY open loads opens one, with a fresh
 *            number. It wants as many IDs as the requests need that are parked
 *            and in no load. Its message is sent any number of times: it may be
 *            lost, late, doubled or overtaken.
 *   take     a loader takes any of the loads whose messages have arrived
 *   write    one compare-and-set in the register grants it a range for all of
 *            them. Ranges ascend in the order of these writes: see register.pml.
 *   split    the loader divides the range, and sends each load a grant. Grants
 *            arrive any number of times, or never.
 *   use      a grant of an open load serves the requests of that load, in the
 *            order of arrival. The rest is burnt, and the load is closed. Any other
 *            grant is burnt.
 *   give up  of a load: its requests go into the next one
 *   expire   of a request
 *   forget   a worker loses all its state of the tag: it crashes, or the tag
 *            leaves its memory. Messages remain.
 *   fail     a loader crashes, or its write is refused or without an answer. A
 *            loader that fails after its write is one whose grants never arrive.
 *
 * A pause is no step: each step may come late.
 *
 * -DLEARN    The tag is trend or strict. A worker takes the order from its first
 *            grant, and treats the tag as strict until then. For a trend tag it
 *            wants one ID more, and keeps the rest for later requests.
 *
 * Properties: an ID is above all that were received before its request was sent
 * (of a strict tag); no ID is served twice.
 *
 * Bounds: NW workers, NL loaders, NR requests, of which the first is for two IDs,
 * FORGETS. N bounds the IDs that are held at a time. Loads and writes are not
 * bounded.
 *
 * Abstracted: a request is sent just before it arrives, and its reply is received
 * at once. A request that is sent earlier, or a reply that comes later, demands
 * less. A load is a slot of its worker. Nothing that was sent for a closed load
 * can be used, because numbers are fresh. So close() deletes it everywhere.
 * Only the order of IDs matters: tidy() deletes each ID that no message, loader or
 * worker holds, and lowers those above it by 1.
 *
 * Not here: a register that regresses.
 *
 * Mutants, -DM=x:
 *   AFTER     a grant serves requests that arrived after its load was sent
 *   KEEP      a worker keeps the rest of a grant
 *   EARLIER   a grant of a closed load is used for the open one
 *   NUMBERS   a worker that forgets the tag begins its numbers again
 *   GROW      a load that is sent again wants more, with the same number
 *   ANY       a grant serves requests of any open load (FLY=2)
 *   PREFETCH  a loader writes before it takes loads
 *   JOIN      a loader adds a load that comes after its write
 *   UPDATE    ranges do not ascend in the order of the writes
 *   RETRY     a caller retries, and then uses the late reply as well
 *   GUESS     a worker treats a tag as trend until its first grant (LEARN)
 *   RULES     a grant shows an order that was read elsewhere (LEARN)
 *   REBORN    a trend tag is removed, and made again as a strict one (LEARN)
 */
#ifndef NR                      /* give all of these or none */
#define NW 2
#define NL 2
#define NR 4
#define N 7
#define FORGETS 1
#endif
#ifndef FLY
#define FLY 1
#endif
#ifndef M
#define M NONE
#endif
mtype = { NONE, AFTER, KEEP, EARLIER, NUMBERS, GROW, ANY, PREFETCH, JOIN, UPDATE, RETRY, GUESS, RULES,
          REBORN, TREND, STRICT };
#ifdef LEARN
#define UNKNOWN 0
#else
#define UNKNOWN STRICT
#endif
#define NK (NW*FLY)             /* loads; w*FLY and the following are of worker w */
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MASK(a, b) (((1 << (b)) - 1) & ~((1 << (a)) - 1))
#define SIZE(r) ((r) == 0 -> 2 : 1)
#define TRENDY(w) (kind[w] == TREND || (M == GUESS && !kind[w]))
#define SERVES(r, k) (load[r] == k+1 || M == AFTER || (M == ANY && load[r]) || TRENDY(w))
#define FLOOR(r) (M == RETRY -> top : floor[r])

/* Requests, in order of arrival: the worker, 1 + the load (0: none), and 1 + the
 * highest ID that had been received. */
bool parked[NR]; byte at[NR], load[NR], floor[NR];
byte want[NK];                  /* loads: how many IDs, 0 if it is not open */
byte kind[NW], buf[NW], end_[NW];    /* workers: the tag's order, IDs that were kept */
/* Loaders: 0 idle, 1 has taken loads, 2 has written; the loads; the range. */
byte st[NL], set[NL], a[NL], n[NL];
/* Grants that begin at this ID: 1 + the load (0: none), how many IDs, the order. */
byte gof[N], gsize[N], gkind[N];
byte next, order;               /* the register */
byte sent, top, forgets;        /* requests that were sent; the floor of the next one */
short given;                    /* IDs that were served */

inline idle(l_) { st[l_] = 0; set[l_] = 0; a[l_] = 0; n[l_] = 0 }
inline gone(r_) { parked[r_] = 0; at[r_] = 0; load[r_] = 0; floor[r_] = 0 }
inline serve(r_, c_) {
  assert(order == TREND || c_ >= FLOOR(r_)); assert(!(given & MASK(c_, c_ + SIZE(r_))));
  given = given | MASK(c_, c_ + SIZE(r_)); c_ = c_ + SIZE(r_);
  top = (sent < NR || M == RETRY -> MAX(top, c_) : 0); gone(r_) }
inline close(k_, keep_) {
  want[k_] = 0; i = 0;
  do :: i < NR -> if :: load[i] == k_+1 -> load[i] = 0 :: else fi; i++ :: else -> break od; i = 0;
  do :: i < N && !(keep_) -> if :: gof[i] == k_+1 -> gof[i] = 0; gsize[i] = 0; gkind[i] = 0 :: else fi; i++
     :: else -> break od; i = 0;
  do :: i < NL && !(keep_) -> set[i] = set[i] & ~(1 << k_);
          if :: !set[i] && M != PREFETCH -> idle(i) :: else fi; i++
     :: else -> break od; i = 0 }
inline cut(x_) { x_ = (x_ > i -> x_ - 1 : x_) }
inline tidy() { d_step {
  live = 0; i = 0;
  do :: i < N -> if :: gof[i] -> live = live | MASK(i, i+gsize[i]) :: else fi; i++ :: else -> break od; i = 0;
  do :: i < NW -> live = live | MASK(buf[i], end_[i]); i++ :: else -> break od; i = 0;
  do :: i < NL -> if :: st[i] == 2 -> live = live | MASK(a[i], a[i]+n[i]) :: else fi; i++ :: else -> break od;
  given = given & live; i = (M == UPDATE || live == MASK(0, next) -> 0 : next);
  do :: i > 0 -> i--;
        if :: live >> i & 1
           :: else -> given = (given & MASK(0, i)) | (given >> 1 & ~MASK(0, i)); cut(next); cut(top); j = 0;
              do :: j < NR -> cut(floor[j]); j++ :: else -> break od; j = 0;
              do :: j < NL -> cut(a[j]); j++ :: else -> break od; j = 0;
              do :: j < NW -> cut(buf[j]); cut(end_[j]); j++ :: else -> break od; j = i;
              do :: j < N-1 -> gof[j] = gof[j+1]; gsize[j] = gsize[j+1]; gkind[j] = gkind[j+1]; j++
                 :: else -> gof[j] = 0; gsize[j] = 0; gkind[j] = 0; break od; j = 0 fi
     :: else -> break od;
  i = 0; live = 0 } }

proctype worker(byte w) { byte r, k, c, x, i, j; short live;
end: do
  :: atomic { sent < NR && (sent || !w) ->                                              /* arrive */
       r = sent; sent++; parked[r] = 1; at[r] = w; floor[r] = top;
       if :: sent == NR && M != RETRY -> top = 0 :: else fi;
       if :: buf[w] + SIZE(r) <= end_[w] -> serve(r, buf[w]); tidy() :: else fi; r = 0 }
  :: atomic { select(k : w*FLY .. w*FLY+FLY-1);                                         /* load */
       do :: r < NR -> if :: parked[r] && at[r] == w && !load[r] && (!want[k] || M == GROW) ->
                             c = c + SIZE(r); load[r] = k+1 :: else fi; r++
          :: else -> break od; r = 0;
       if :: c -> want[k] = want[k] + c + (TRENDY(w) -> 1 : 0) :: else fi; k = 0; c = 0 }
  :: atomic { select(x : 0 .. N-1); k = gof[x] - 1;                                     /* use */
       if :: gof[x] && k/FLY == w && want[k] -> c = x; kind[w] = (M == GUESS -> kind[w] : gkind[x]);
             do :: r < NR -> if :: parked[r] && at[r] == w && SERVES(r, k) && c + SIZE(r) <= x + gsize[x] ->
                                   serve(r, c) :: else fi; r++
                :: else -> break od; r = 0;
             if :: TRENDY(w) || M == KEEP -> buf[w] = c; end_[w] = x + gsize[x] :: else fi;
             kind[w] = gkind[x]; close(k, M == EARLIER)
          :: else fi; x = 0; k = 0; c = 0; tidy() }
  :: atomic { select(k : w*FLY .. w*FLY+FLY-1);                                         /* give up */
       if :: want[k] -> close(k, M == EARLIER) :: else fi; k = 0; tidy() }
  :: atomic { select(r : 0 .. NR-1);                                                    /* expire */
       if :: parked[r] && at[r] == w -> gone(r) :: else fi; r = 0 }
  :: atomic { forgets < FORGETS -> forgets++; kind[w] = UNKNOWN; buf[w] = 0; end_[w] = 0;   /* forget */
       do :: r < NR -> if :: at[r] == w -> gone(r) :: else fi; r++ :: else -> break od; r = 0; k = w*FLY;
       do :: k < w*FLY+FLY -> close(k, M == NUMBERS); k++ :: else -> break od; k = 0; tidy() }
  :: atomic { M == REBORN && order == TREND -> order = STRICT; top = 0;
       do :: r < NR -> floor[r] = 0; r++ :: else -> break od; r = 0 }
  od }

proctype loader(byte l) { byte r, k, c, i, j; short live;
end: do
  :: atomic { !st[l] && (!l || st[l-1]) -> select(r : 1 .. (1 << NK) - 1);              /* take */
       do :: k < NK -> r = (want[k] -> r : r & ~(1 << k)); k++ :: else -> break od; k = 0;
       if :: M == PREFETCH -> st[l] = 1
          :: M != PREFETCH && r -> set[l] = r; st[l] = 1
          :: else fi; r = 0 }
  :: atomic { st[l] == 1 -> a[l] = next;                                                /* write */
       do :: k < NK -> n[l] = n[l] + (set[l] >> k & 1 -> want[k] : 0); k++ :: else -> break od; k = 0;
       if :: M == PREFETCH || M == JOIN -> n[l]++
          :: M == UPDATE -> select(c : 0 .. N-1); a[l] = c; c = 0
          :: else fi;
       if :: a[l] + n[l] <= N -> next = MAX(next, a[l] + n[l]); st[l] = 2 :: else -> idle(l) fi }
  :: atomic { st[l] == 2 -> c = a[l]; r = set[l];                                       /* split */
       if :: M == PREFETCH || M == JOIN -> select(k : 0 .. NK-1); r = r | (1 << k); k = 0 :: else fi;
       do :: k < NK -> if :: r >> k & 1 && want[k] && c < a[l] + n[l] ->
                             gof[c] = k+1; gsize[c] = MIN(want[k], a[l] + n[l] - c);
                             gkind[c] = (M == RULES -> TREND : order); c = c + gsize[c] :: else fi; k++
          :: else -> break od; k = 0; r = 0; c = 0; idle(l); tidy() }
  :: atomic { st[l] == 1 -> idle(l) }                                                   /* fail */
  od }

init { byte i; atomic {
#ifdef LEARN
  if :: order = TREND :: order = STRICT fi;
#else
  order = STRICT;
#endif
  do :: i < NW -> kind[i] = UNKNOWN; run worker(i); i++ :: else -> break od; i = 0;
  do :: i < NL -> run loader(i); i++ :: else -> break od; i = 0 } }
