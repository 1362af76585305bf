/* Ledger: are granted ranges disjoint, whatever the store returns? (package store/ledger)
 *
 * The store proposes ranges, and may forget, and there may be several of it. The ledger is one entry
 * {high, revision} in a bucket, changed by compare-and-set. Numbers in brackets are the steps of
 * store/ledger/doc.go.
 *
 *   reserve    Reserve: s.Store.Reserve                                    [1]
 *   mark       claim: s.latest, or read; overhear, what the watch shows    [2]
 *   decide     claim: m.high > seg.First                                   [3]
 *   arrives    book.write: Bucket.Write at the leader                      [3]
 *   granted    claim returned nil, Reserve returns the range               [4]
 *   refused    errStale: read again, and decide again
 *   unknown    any other error: the range is burnt; what was sent may still arrive
 *   raise      Store.Raise: bound.raise, then the store; raiseStore does the second half
 *
 * Abstracted: of a revision it matters only whether it is the present one (fresh). A read that is old
 * shows at most what high was; here it shows 0, which refuses least. A loader that starts again, or
 * whose watch lags, is one whose mark is old.
 *
 * Not here: a ledger that went back. What protects then (Above in load events, the memory of loaders,
 * the witness) narrows and does not prove; and best effort, which promises less.
 *
 * Properties: no number is granted twice; writes ascend; what is granted after a raise lies above it.
 * Bounds: NL loaders, NC stores, numbers below N, steps to K, F times a store forgets, RAISES.
 *
 * Mutants: M_NOCHECK  does not ask whether high <= a        M_END     compares high with the range's end
 *          M_BLIND    writes without a condition            M_REBASE  after a refusal takes the revision only
 *          M_UNKNOWN  an unknown outcome counts as done     M_ADOPT   so it does if a later read shows high = b
 *          (that a raise never lowers is shown by a test)
 */
#ifndef NL
#define NL 2
#endif
#ifndef NC
#define NC 2
#endif
#ifndef N
#define N 4
#endif
#ifndef K
#define K 2
#endif
#ifndef F
#define F 1
#endif
#ifndef RAISES
#define RAISES 1
#endif
#define MASK(a, b) (((1 << (b)) - 1) & ~((1 << (a)) - 1))

typedef Loader {
  byte st;             /* 0 idle  1 has a range and a mark  2 write under way  3 refused  4 done  5 unknown (M_ADOPT) */
  byte a, b;           /* the range */
  byte h; bool fresh;  /* the mark as it is known */
  bool again;          /* it was refused before */
  bool late; byte la, lb  /* a write that was given up, and may arrive */
}
Loader ld[NL];
byte S[NC];
byte high, floor;
byte granted, forgets, raises, raising;

/* The entry has a new revision: what others know, or have under way, is old. */
inline moved(to_) {
  high = to_; i = 0;
  do :: i < NL -> ld[i].fresh = 0; ld[i].late = 0; ld[i].la = 0; ld[i].lb = 0; i++ :: else -> break od; i = 0 }
inline idle(l_) { ld[l_].st = 0; ld[l_].a = 0; ld[l_].b = 0; ld[l_].again = 0 }
inline grant(l_) { assert(!(granted & MASK(ld[l_].a, ld[l_].b))); granted = granted | MASK(ld[l_].a, ld[l_].b); idle(l_) }
inline mark(l_) { if :: ld[l_].h = high; ld[l_].fresh = 1 :: ld[l_].h = 0; ld[l_].fresh = 0 fi }
#ifdef M_BLIND
#define HOLDS(l) 1
#else
#define HOLDS(l) ld[l].fresh
#endif
#if defined(M_NOCHECK)
#define BELOW(l) 0
#elif defined(M_END)
#define BELOW(l) (ld[l].h > ld[l].b - 1)
#elif defined(M_REBASE)
#define BELOW(l) (ld[l].h > ld[l].a && !ld[l].again)
#else
#define BELOW(l) (ld[l].h > ld[l].a)
#endif
#if defined(M_NOCHECK) || defined(M_END) || defined(M_REBASE) || defined(M_BLIND)
#define ASCENDS(a_) 1          /* the duplicate is to be seen, not its cause */
#else
#define ASCENDS(a_) ((a_) >= high && (a_) >= floor)
#endif

proctype loader(byte l) {
  byte c, k, i;
end:
  do
  :: atomic { ld[l].st == 0 ->                                     /* reserve, mark */
       select(c : 0 .. NC-1); select(k : 1 .. K);
       if :: S[c] + k <= N -> ld[l].a = S[c]; ld[l].b = S[c] + k; S[c] = S[c] + k; ld[l].st = 1;
             if :: skip :: mark(l) fi
          :: else fi; c = 0; k = 0 }
  :: atomic { ld[l].st == 1 -> if :: BELOW(l) -> idle(l) :: else -> ld[l].st = 2 fi }      /* decide */
  :: atomic { ld[l].st == 2 ->                                     /* arrives */
       if :: HOLDS(l) -> assert(ASCENDS(ld[l].a)); moved(ld[l].b); ld[l].h = high; ld[l].fresh = 1; ld[l].st = 4
          :: else -> ld[l].st = 3 fi }
  :: atomic { ld[l].late -> assert(ASCENDS(ld[l].la)); moved(ld[l].lb) }
  :: atomic { ld[l].st == 3 -> mark(l); ld[l].again = 1; ld[l].st = 1 }                    /* refused */
  :: atomic { ld[l].st == 4 -> grant(l) }                          /* granted */
  :: atomic { ld[l].st == 2 || ld[l].st == 4 ->                    /* unknown */
       if :: ld[l].st == 2 && HOLDS(l) -> ld[l].late = 1; ld[l].la = ld[l].a; ld[l].lb = ld[l].b
          :: ld[l].st == 4 -> mark(l) :: ld[l].st == 2 fi;
#if defined(M_UNKNOWN)
       grant(l)
#elif defined(M_ADOPT)
       ld[l].st = 5
#else
       idle(l)
#endif
     }
#ifdef M_ADOPT
  :: atomic { ld[l].st == 5 -> if :: high == ld[l].b -> grant(l) :: else -> idle(l) fi }
#endif
  od
}

proctype world() {
  byte c, k, i;
end:
  do
  :: atomic { forgets < F -> select(c : 0 .. NC-1);                /* a failover, a backup */
       if :: S[c] > 0 -> select(k : 0 .. S[c]-1); S[c] = k; forgets++ :: else fi; c = 0; k = 0 }
  :: atomic { raises < RAISES -> raises++; select(k : 1 .. N-1); raising = k;
       if :: high < k -> moved(k) :: else fi;
       floor = (k > floor -> k : floor); k = 0 }
  :: atomic { raising > 0 -> select(c : 0 .. NC-1); S[c] = (raising > S[c] -> raising : S[c]); raising = 0; c = 0 }
  :: atomic { select(c : 0 .. NC-1); S[c] < high && high <= N -> S[c] = high; c = 0 }      /* raiseStore */
  od
}

init { byte l; atomic { do :: l < NL -> run loader(l); l++ :: else -> break od; l = 0; run world() } }
