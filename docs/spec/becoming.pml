/* A tag becomes strict: when may the command say that it is?
 *
 * The command writes the rule, looks who has a lease, waits until each of them has acted upon the
 * rule, and creates the tag (or says that it is strict). A process that answers for the tag
 * afterwards must know the rule. It may be paused anywhere, which is why nothing here has a time.
 * A process with a lease that others have ended may still answer ordinary tags from its memory.
 *
 * Run:  spin -a becoming.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan
 *
 * Mutants  M_RULESFIRST  a process reads the rules, then makes its lease, then answers
 *          M_OLDRULES    the rules it reads after that may be old ones (a replica's)
 *          M_OLDLEASES   the leases that the command reads may be old ones
 *          M_LOST        a lease that others have ended counts as a process that has ended
 */
bool rule, tag, knows, acted;
byte lease;                 /* 0 none 1 live 2 ended by others */
bool answers;

inline readRules() {
#ifdef M_OLDRULES
  if :: knows = rule :: skip fi
#else
  knows = rule
#endif
}
inline makeLease() { atomic { lease = 1; acted = knows } }

active proctype process() {
end:
  do
  :: lease != 1 ->          /* at the start, and after others have ended its lease: meanwhile it answers */
#ifdef M_RULESFIRST
       readRules(); makeLease()
#else
       makeLease(); readRules()
#endif
       ; answers = 1
  :: atomic { rule -> knows = 1 }                 /* its watch */
  :: atomic { lease == 1 -> acted = knows }       /* a renewal says what it has acted upon */
  :: atomic { tag && answers -> assert(knows) }
  od
}

active proctype others() { do :: atomic { lease == 1 -> lease = 2 } :: break od }

active proctype command() {
  rule = 1;
  if
  :: atomic { lease == 0 -> tag = 1 }
  :: atomic { lease == 1 && acted -> tag = 1 }
#ifdef M_OLDLEASES
  :: tag = 1                                      /* there was none once */
#endif
#ifdef M_LOST
  :: atomic { lease == 2 -> tag = 1 }
#endif
  fi
}
