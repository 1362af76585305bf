/* Source: is it still the stream that the record describes?
 * (messages/enrich/evidence.go) docs/proofs/enrich.md has the argument.
 *
 * A source of at most SN sequences and EVM events. Each message has an event, a
 * sequence and the time at which it was stored. The source may be written; lose
 * a message at the front or in the middle; be saved, and restored from that; be
 * recreated, empty, with sequences from 1 or from the old end. Its time of
 * creation and a marker in its configuration then are kept, or new. A mirror
 * that lags is a backup. Messages may have equal times (-DTIE).
 *
 *   look   identifySource, checkSource, around: `before` is p, `after` is q or
 *          the event itself
 *   take   the next event behind Done is enriched; advance moves Done and Time
 *   stop   ErrUndecided: the enrichment stops, and an operator decides
 *
 * Property: no event is enriched twice, and no stored event is skipped. An event
 * that was removed before any enricher looked is lost (docs/proofs/enrich.md).
 * Not here: the target's identity (AtLast, the chain in the headers); tests
 * cover it.
 *
 * Mutants: M_CREATED   the time of creation names the stream: if it differs,
 *                      begin again
 *          M_CREATED2  ... stop
 *          M_MARKER    a marker in the configuration names it: if it differs,
 *                      begin again
 *          M_BEYOND    the event is gone and the stream goes beyond: accepted as
 *                      the same
 * Limit:   BACK=1      the server's clock is set back: fails, since the argument
 *                      is that times ascend
 */
#if defined(M_CREATED)
#define EVID 0
#elif defined(M_CREATED2)
#define EVID 1
#elif defined(M_MARKER)
#define EVID 2
#elif defined(M_BEYOND)
#define EVID 4
#elif defined(M_BYTIME)
#define EVID 7
#else
#define EVID 5
#endif
#ifndef SN
#define SN 4
#endif
#ifndef EVM
#define EVM 5
#endif
#ifndef DEL
#define DEL 1
#endif
#ifndef BKP
#define BKP 1
#endif
#ifndef RST
#define RST 1
#endif
#ifndef NEW
#define NEW 1
#endif
#ifndef BACK
#define BACK 0
#endif

byte ev[SN+2], ts[SN+2], last, created = 1, marker = 1;       /* the source */
byte bev[SN+2], bts[SN+2], blast, bcreated, bmarker; bool saved;
byte events, clock = 1, gen = 1;
bool tie;
byte dels, bkps, rsts, news, backs;

byte done, tsd, hs, cr, mk;   /* hs: sequence of the last event that was enriched, tsd its timestamp */
 bool began, stopped;                  /* the record */
byte enriched;                                                /* by event */
byte gone;             /* events removed before they were enriched: lost */
#define BIT(k) (1 << ((k)-1))
inline absent() {
  j = 1; m = 0;
  do :: j <= SN -> if :: ev[j] -> m = m | BIT(ev[j]) :: else fi; j++ :: else -> break od;
  gone = (gone | (((1 << events) - 1) & ~m)) & ~enriched; j = 0; m = 0
}

proctype world() {
  byte k, j, m;
end:
  do
  :: atomic { last < SN && events < EVM && !stopped ->
       events++; last++; ev[last] = events;
       if :: clock++
#ifdef TIE
          :: tie             /* of the same atomic batch */
#endif
#if BACK > 0
          :: backs < BACK && clock > 2 -> clock = clock - 2; backs++
#endif
       fi;
       ts[last] = clock; tie = 1 }
  :: atomic { dels < DEL && last > 0 && !stopped -> select(k : 1 .. last);
       if :: ev[k] -> ev[k] = 0; ts[k] = 0; dels++; absent(); :: else fi; k = 0 }
  :: atomic { bkps < BKP && last > 0 && !stopped -> bkps++; saved = 1; tie = 0; blast = last; bcreated = created; bmarker = marker;
       k = 1; do :: k <= SN -> bev[k] = ev[k]; bts[k] = ts[k]; k++ :: else -> break od; k = 0 }
  :: atomic { saved && rsts < RST && !stopped -> rsts++; tie = 0;
       k = 1; do :: k <= SN -> ev[k] = bev[k]; ts[k] = bts[k]; k++ :: else -> break od; k = 0;
       last = blast;
       if :: created = bcreated :: gen++; created = gen fi;
       if :: marker = bmarker :: marker = created + 10 fi; absent() }
  :: atomic { news < NEW && last > 0 && !stopped -> news++; tie = 0;
       k = 1; do :: k <= SN -> ev[k] = 0; ts[k] = 0; k++ :: else -> break od; k = 0;
       gen++; created = gen;
       if :: last = 0 :: last < SN -> skip fi;
       if :: skip :: marker = created + 10 fi; absent() }
  od
}

#if EVID == 7
#define TSD(k) tsd
#define EXACT 0
#else
#define EXACT (ts[done] != tsd)
#define TSD(k) ts[k]
#endif
#define OLDER(k) (ts[k] < tsd || (ts[k] == tsd && k <= hs))    /* not newer than the last event enriched */
inline stop() { stopped = 1 }
/* done := the last sequence that is not newer than tsd */
inline byTime() {
  p = 0; k = 1;
  do
  :: k <= last -> if :: ev[k] && OLDER(k) -> p = k :: else fi; k++
  :: else -> break
  od; done = p; k = 0
}

proctype enricher() {
  byte k, p, q, first; bool ok;
end:
  do
  :: atomic { !stopped ->
       ok = 1;
       /* p: the last message at or before done, q: the first behind, first: the first of all */
       p = 0; q = 0; first = last + 1; k = last;
       do
       :: k > 0 ->
          if :: ev[k] -> first = k; if :: k > done -> q = k :: k <= done && p == 0 -> p = k :: else fi :: else fi; k--
       :: else -> break
       od;
       if
       :: began ->
#if EVID == 0
          if :: cr != created -> done = 0; tsd = 0 :: cr == created && last < done -> ok = 0 :: else fi;
#elif EVID == 1
          if :: cr != created || last < done -> ok = 0 :: else fi;
#elif EVID == 2
          if :: mk != marker -> done = 0; tsd = 0 :: mk == marker && last < done -> ok = 0 :: else fi;
#elif EVID == 4
          if :: done > 0 && (last < done || (ev[done] != 0 && ts[done] != tsd)) -> ok = 0 :: else fi;
#elif EVID == 5
          if :: done > 0 && (last < done || (ev[done] != 0 && EXACT) || (p > 0 && !OLDER(p))) -> ok = 0
             :: else -> skip fi;
          if :: q > 0 && OLDER(q) -> ok = 0 :: else fi;
#endif
#if EVID == 7
          byTime();
#endif
       :: else
       fi;
       if
       :: ok ->
          /* nothing at or before done was passed over */
          k = 1; do :: k <= done && k <= last -> if :: ev[k] -> assert((enriched | gone) & BIT(ev[k])) :: else fi; k++ :: else -> break od;
          k = done + 1;
          do :: k <= last && ev[k] == 0 -> k++ :: else -> break od;
          if
          :: k <= last ->
             assert(!(enriched & BIT(ev[k])));
             enriched = enriched | BIT(ev[k]); done = k; hs = k;
             tsd = (ts[k] > tsd -> ts[k] : TSD(k)); began = 1
          :: else
          fi;
          if :: began -> cr = created; mk = marker :: else fi
       :: else -> stop()
       fi; k = 0; p = 0; q = 0; first = 0; ok = 0 }
  od
}
init { atomic { run world(); run enricher() } }
