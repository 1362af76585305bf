#!/bin/sh
# run.sh checks owners.pml and becoming.pml with Spin: the protocols pass, and each mutant fails.
# It takes spin, cc, 4 GB, and five minutes of one processor, half of them for FENCE with its 26,966,929 states.
# Work files go to a folder of its own.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# complete NAME makes sure that all states were looked at: a search that runs out of memory or depth finds
# no error either.
complete() {
	if grep -E 'Search not completed|depth too small' out.log; then echo "UNEXPECTED $1: not all states were looked at"; exit 1; fi
}

# check NAME pass|fail "C FLAGS" "PAN FLAGS" SPIN-FLAGS…
check() {
	name=$1 want=$2 cflags=$3 flags=$4
	shift 4
	spin "$@" -a "$here/owners.pml" > spin.log
	cc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 $cflags -o pan pan.c
	./pan $flags > out.log || true
	states=$(awk '/states, stored/ {print $1}' out.log)
	[ "$want" = fail ] || complete "$name"
	case $(grep -o 'errors: [0-9]*' out.log || echo none)-$(grep -c 'assertion violated' out.log || true)-$want in
	"errors: 0-0-pass" | "errors: 1-1-fail") echo "ok       $name: $want, $states states" ;;
	*) echo "UNEXPECTED $name: want $want"; tail -20 out.log; exit 1 ;;
	esac
}
all="-m3000000 -w26"
# Mutants are found much sooner in a random order.
random="-DP_RAND -DT_RAND"

check CALM pass "" "$all" -DCALM -DK=1
for m in NODROP GRANT SAMEEPOCH; do check M_$m fail "" "$all" -DCALM -DK=1 -DM_$m; done
for m in STAMP SIGHT SUSPEND NOEND ABSENT KEEPTERM LATESLOT ADOPT HAND STOP; do
	check M_$m fail "$random" "-m20000 -w24 -RS1" -DFENCE -DM_$m
done
for m in MARGIN0 REST; do check M_$m fail "$random" "-m20000 -w24 -RS2" -DFENCE -DM_$m; done
check M_REREAD fail "$random" "-m20000 -w24 -RS1" -DFENCE -DT=1 -DM=0 -DM_REREAD
check M_SAMEID fail "$random" "-m20000 -w24 -RS1" -DFENCE -DK=1 -DM_SAMEID
check M_NOLOOK fail "" "$all" -DK=1 -DT=1 -DM=0 -DMAXID=2 -DMAXEP=2 -DM_NOLOOK
check FENCE pass "" "$all" -DFENCE

for m in "" M_RULESFIRST M_OLDRULES M_OLDLEASES M_LOST; do
	spin ${m:+-D$m} -a "$here/becoming.pml" > spin.log
	cc -O2 -w -DSAFETY -o pan pan.c
	./pan -E > out.log
	if [ -n "$m" ]; then want=1; else want=0; fi
	[ $want = 1 ] || complete "becoming"
	grep -q "errors: $want" out.log || { echo "UNEXPECTED becoming $m"; cat out.log; exit 1; }
	echo "ok       becoming ${m:-protocol}: $([ $want = 0 ] && echo pass || echo fail)"
done
