/* Enrichment: does each event arrive once and in order, whatever dies?
 * (package messages/enrich) docs/proofs/enrich.md has the argument.
 *
 * The record is {done, last, up to two plans, doubt}, written by
 * compare-and-set. The target is a stream; a message is published on the
 * condition that it gets its expected sequence. Each of two enrichers may die at
 * any step, with a batch in flight that still arrives.
 *
 *   pc 0   loadRecord, which may return an old record
 *   pc 1   takeOver, settle, arrivedThrough: the target's last sequence (perhaps
 *          an old answer), the plans, and where these do not fit, the headers
 *          behind Last (searchTarget)
 *   pc 2   takeOver: saveRecord, which detects a changed record
 *   pc 3   turn.run: planBatch saves a plan while a batch is in flight, launch
 *          publishes, land advances
 *   fl     the batch in flight (turn.flight); lost: that of a dead enricher
 *   app    a message is stored; look: events that can be stamped, the others are
 *          dead letters elsewhere
 *   -DATOMIC  an atomic batch (prepareAtomic), else a fast batch (prepareFast)
 *   -DFLIP    event 2 cannot be stamped when its plan is prepared again
 *             (errOtherPlan): the plans are dropped, in doubt (planBatch), until
 *             a batch of a new plan is confirmed (land)
 *   FOREIGN   the number of foreign messages in the target
 *   -DCONS    messages are consumed at once, so no header can be read: where the
 *             plans do not decide, the enrichment stops (ErrUndecided)
 *
 * Properties: no event twice, none out of order (app); no event skipped that has
 * neither arrived nor is a dead letter (write). Bounds: E events, two to a
 * batch, 2 enrichers, 3 deaths. Not here: reading, IDs, turns by time, a
 * restored record or target.
 *
 * Mutants: M_NODOUBT  a plan is given up, and positions still count (with FLIP)
 *          M_ALONE    only the first message of a fast batch has a condition
 *          M_KEEPON   a refusal does not end a fast batch (with FOREIGN=1)
 * No mutant publishes before the plan is saved: the headers then decide, and
 * without them the enrichment stops. Nothing doubles; plans let consumed targets
 * continue.
 */
#ifndef E
#define E 3
#endif
#define B 2
#ifndef FOREIGN
#define FOREIGN 0
#endif
#define TM (E+FOREIGN+1)
#define BIT(k) (1 << ((k)-1))
byte rdone, rlast, r1s, r1t, r2s, r2t; bool rdoubt;
byte t, tc[TM+1]; byte in_, dead, maxin; bool stopped; byte foreigns; byte crashes;
typedef Enr { byte pc; bool fresh; byte done, last, s1, t1, s2, t2; bool doubt;
  bool fl; byte fset, fpos; bool lost; bool flok; bool flend;        /* the flight, perhaps of a crashed one: lost */
  bool saved2; }
Enr e[2];
inline cnt(m_, n_) { n_ = 0; k = 1; do :: k <= E -> if :: m_ & BIT(k) -> n_++ :: else fi; k++ :: else -> break od; k = 0 }
inline nth(n_, out_) { /* event at position n_ of s1 then s2 of e[i] */
  out_ = 0; c = 0; k = 1;
  do :: k <= E -> if :: e[i].s1 & BIT(k) -> c++; if :: c == n_ && out_ == 0 -> out_ = k :: else fi :: else fi; k++ :: else -> break od;
  k = 1;
  do :: k <= E -> if :: e[i].s2 & BIT(k) -> c++; if :: c == n_ && out_ == 0 -> out_ = k :: else fi :: else fi; k++ :: else -> break od; k = 0; c = 0 }
inline low(m_, out_) { out_ = 0; k = 1; do :: k <= E -> if :: (m_ & BIT(k)) && out_ == 0 -> out_ = k :: else fi; k++ :: else -> break od; k = 0 }
inline app(x_) { assert(!(in_ & BIT(x_))); assert(x_ > maxin); maxin = x_; in_ = in_ | BIT(x_); t++; tc[t] = x_ }
inline dropto(m_, d_) { m_ = m_ & ~(BIT(d_+1) - 1) }
inline clear() { e[i].pc = 0; e[i].fresh = 0; e[i].done = 0; e[i].last = 0; e[i].s1 = 0; e[i].t1 = 0; e[i].s2 = 0; e[i].t2 = 0; e[i].doubt = 0; e[i].saved2 = 0 }
inline write() { rdone = e[i].done; rlast = e[i].last; r1s = e[i].s1; r1t = e[i].t1; r2s = e[i].s2; r2t = e[i].t2; rdoubt = e[i].doubt; e[0].fresh = 0; e[1].fresh = 0; e[i].fresh = 1;
  k = 1; do :: k <= rdone -> assert((in_ | dead) & BIT(k)); k++ :: else -> break od; k = 0 }
inline norm() { /* plans that are done */
  do
  :: e[i].t1 > 0 && e[i].s1 == 0 -> if :: e[i].t1 > e[i].done -> e[i].done = e[i].t1 :: else fi; e[i].s1 = e[i].s2; e[i].t1 = e[i].t2; e[i].s2 = 0; e[i].t2 = 0
  :: else -> break
  od }
inline look(from_, to_, out_) { out_ = 0; k = from_ + 1;
  do :: k <= to_ -> if :: out_ = out_ | BIT(k)
#ifdef FLIP
     :: k == 2 -> dead = dead | BIT(2)
#endif
     fi; k++ :: else -> break od; k = 0 }
#define HASPLAN (e[i].t1 > 0)
proctype enr(byte i) { byte k, c, y, z, x;
end: do
  :: atomic { e[i].pc == 0 && !e[i].fl && !stopped -> e[i].done = rdone; e[i].last = rlast; e[i].s1 = r1s; e[i].t1 = r1t; e[i].s2 = r2s; e[i].t2 = r2t; e[i].doubt = rdoubt; e[i].fresh = 1; e[i].pc = 1 }
  :: atomic { e[i].pc == 1 -> y = e[i].last; do :: y < t -> y++ :: break od;       /* perhaps an old answer */
       if
       :: y == e[i].last -> skip
       :: else ->
          z = y - e[i].last; nth(z, x);
          if :: e[i].doubt -> x = 0 :: else fi;
#if FOREIGN > 0
          if :: x > 0 && tc[y] != x -> x = 0 :: else fi;
#endif
          if
          :: x > 0 -> e[i].done = x
          :: else ->
#ifdef CONS
             if :: e[i].fresh -> stopped = 1 :: else fi; clear(); y = 0; z = 0; x = 0; goto out;
#endif
             z = e[i].last + 1; do :: z <= y -> if :: tc[z] > e[i].done -> e[i].done = tc[z] :: else fi; z++ :: else -> break od
          fi;
          dropto(e[i].s1, e[i].done); dropto(e[i].s2, e[i].done); e[i].last = y
       fi;
       norm(); e[i].pc = 2; y = 0; z = 0; x = 0;
out:   skip }
  :: atomic { e[i].pc == 2 -> if :: e[i].fresh -> write(); e[i].pc = 3; e[i].saved2 = 1 :: else -> clear() fi }
  /* the plan at the head may have changed: give up all plans */
#ifdef FLIP
  :: atomic { e[i].pc == 3 && !e[i].fl && HASPLAN && (e[i].s1 & 2) ->
       dead = dead | 2;       /* it became a dead letter when it was prepared again */
       e[i].s1 = 0; e[i].t1 = 0; e[i].s2 = 0; e[i].t2 = 0;
#ifndef M_NODOUBT
       e[i].doubt = 1;
#endif
       if :: e[i].fresh -> write() :: else fi; clear() }
#endif
  /* a new plan, beside what is under way */
  :: atomic { e[i].pc == 3 && e[i].t2 == 0 && ((e[i].t1 > 0 && e[i].fl && e[i].t1 < E) || (e[i].t1 == 0 && e[i].done < E)) ->
       y = (e[i].t1 > 0 -> e[i].t1 : e[i].done); select(z : 1 .. B); z = (y + z > E -> E : y + z);
       look(y, z, x);
       if :: e[i].t1 > 0 -> e[i].s2 = x; e[i].t2 = z :: else -> e[i].s1 = x; e[i].t1 = z fi;
#ifdef M_NOSAVE
       skip;
#else
       if :: e[i].fresh -> write() :: else -> clear() fi;
#endif
       y = 0; z = 0; x = 0 }
  :: atomic { e[i].pc == 3 && !e[i].fl && HASPLAN && e[i].s1 == 0 -> norm() }
  :: atomic { e[i].pc == 3 && !e[i].fl && HASPLAN && e[i].s1 != 0 -> e[i].fl = 1; e[i].fset = e[i].s1; e[i].fpos = e[i].last; e[i].flok = 0; e[i].flend = 0; e[i].lost = 0 }
  /* a message of the flight arrives */
  :: atomic { e[i].fl && !e[i].flend ->
#ifdef ATOMIC
       if :: t == e[i].fpos -> do :: e[i].fset != 0 -> low(e[i].fset, x); app(x); e[i].fset = e[i].fset & ~BIT(x) :: else -> break od; e[i].flok = 1 :: else fi;
       e[i].flend = 1;
#else
       low(e[i].fset, x);
       if
       :: t == e[i].fpos -> app(x); e[i].fset = e[i].fset & ~BIT(x); e[i].fpos++;
#ifdef M_ALONE
          e[i].fpos = 99;
#endif
          if :: e[i].fset == 0 -> e[i].flend = 1; e[i].flok = 1 :: else fi
#ifdef M_ALONE
       :: e[i].fpos == 99 -> app(x); e[i].fset = e[i].fset & ~BIT(x); if :: e[i].fset == 0 -> e[i].flend = 1; e[i].flok = 1 :: else fi
#endif
       :: else ->
#ifdef M_KEEPON
          e[i].fset = e[i].fset & ~BIT(x); e[i].fpos++; if :: e[i].fset == 0 -> e[i].flend = 1 :: else fi
#else
          e[i].flend = 1
#endif
       fi;
#endif
       x = 0; if :: e[i].flend && e[i].lost -> e[i].fl = 0; e[i].lost = 0; e[i].flend = 0; e[i].flok = 0; e[i].fset = 0; e[i].fpos = 0 :: else fi }
  :: atomic { e[i].fl && e[i].flend && !e[i].lost ->
       if
       :: e[i].flok -> cnt(e[i].s1, y); e[i].last = e[i].last + y; e[i].s1 = 0; e[i].doubt = 0; norm(); y = 0
       :: else -> clear()
       fi; e[i].fl = 0; e[i].flend = 0; e[i].flok = 0; e[i].fset = 0; e[i].fpos = 0 }
  /* gives up, or crashes; what is under way may still arrive */
  :: atomic { e[i].pc > 0 && crashes < 3 -> crashes++; clear(); if :: e[i].fl && !e[i].flend -> e[i].lost = 1 :: e[i].fl && e[i].flend -> e[i].fl = 0; e[i].flend = 0; e[i].flok = 0; e[i].fset = 0; e[i].fpos = 0 :: else fi }
  od }
/* the flight of a crashed enricher goes on beside its next life: a third sender */
proctype world() {
end: do
  :: atomic { foreigns < FOREIGN && t < TM -> t++; tc[t] = 0; foreigns++ }
  od }
init { atomic { run enr(0); run enr(1); run world() } }
