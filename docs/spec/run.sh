#!/bin/sh
# run.sh checks the specifications with Spin: each passes, and each of its
# mutants fails. It needs spin, cc, up to 5 GB, and some minutes of two
# processors. Work files go to a temporary folder.
#
#	run.sh            all of them, strict beside the others
#	run.sh register   those of one model
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
only=${1:-} pan=
[ -z "$only" ] || [ -f "$here/$only.pml" ] || { echo "run.sh: no model $only" >&2; exit 2; }

# Spin is a package of Debian and its relatives. If it is missing, root installs
# it; other users unpack it beside the work files.
get_spin() {
	cd "$work"
	if [ "$(id -u)" = 0 ]; then
		apt-get update && apt-get install -y --no-install-recommends spin
	else
		apt-get download spin && dpkg -x spin_*.deb "$work/root"
	fi
}
PATH=$PATH:$work/root/usr/bin
if ! command -v spin > "$work/tool.log"; then
	(get_spin) >> "$work/tool.log" 2>&1 || true
	command -v spin >> "$work/tool.log" || { cat "$work/tool.log" >&2; echo "run.sh needs the model checker Spin: install it with 'apt-get install spin' or from https://spinroot.com" >&2; exit 1; }
fi
command -v cc >> "$work/tool.log" || { echo "run.sh needs a C compiler called cc" >&2; exit 1; }

# check MODEL NAME pass|fail "C FLAGS" "PAN FLAGS" SPIN-FLAGS…
check() {
	model=$1 name=$2 want=$3 cflags=$4 flags=$5
	shift 5
	case $only in "" | "$model") ;; *) return 0 ;; esac
	began=$(date +%s)
	rm -f pan pan.c
	spin "$@" -a "$here/$model.pml" > spin.log
	cc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 $cflags -o pan pan.c
	./pan $flags > out.log &
	pan=$!
	wait $pan || true
	pan=
	states=$(awk '/states, stored/ {print $1}' out.log)
	took=$(($(date +%s) - began))
	# A search that did not end, or did not go all the way down, is no pass.
	case $(grep -o 'errors: [0-9]*' out.log || echo none)-$(grep -c 'assertion violated' out.log || true)-$(grep -c 'Search not completed\|depth too small\|out of memory\|aborted' out.log || true)-$want in
	"errors: 0-0-0-pass" | "errors: 1-1-"*"-fail") printf 'ok  %-9s %-28s %s  %9s states  %3ss\n' "$model" "$name" "$want" "$states" "$took" | tee -a "$work/done" ;;
	*) echo "UNEXPECTED $model $name: want $want"; tail -20 out.log; exit 1 ;;
	esac
}
mid="-m3000000 -w24"
# Small searches take less time than an optimizing compiler.
quick=-O0 small="-m200000 -w20"
register() {
	row="-DNL=2 -DNT=1 -DN=4 -DK=2 -DR=4 -DH=2"
	few="-DNL=2 -DNT=1 -DN=3 -DK=1 -DR=3 -DH=1"
	check register "JetStream" pass "" "$mid"
	check register "JetStream, three loaders" pass "" "$mid" -DNL=3 -DNT=2 -DN=2 -DK=1 -DR=3 -DH=1
	check register "database" pass "" "$mid" -DNC=1 -DF=2 $row
	check register "database, two tags" pass "" "$mid" -DNC=1 -DF=1 -DNL=2 -DNT=2 -DN=2 -DK=1 -DR=3 -DH=1
	check register "two databases" pass "" "$mid" -DNC=2 -DF=1 $row
	for m in BLIND REBASE UNKNOWN ADOPT; do check register $m fail $quick "$small" -DM=$m; done
	for m in NOLOOK END; do check register $m fail $quick "$small" -DNC=1 -DF=1 $row -DM=$m; done

	# No proof stops a loader.
	check register "rules, two tags" pass "" "$mid" -DRULES=1 -DNL=2 -DNT=2 -DN=2 -DK=1 -DR=3 -DH=1
	check register "rules, restarts" pass "" "$mid" -DRULES=1 $few -DCR=1
	check register "rules, slow reads" pass "" "$mid" -DRULES=1 $few -DSLOW
	check register "rules, database" pass "" "$mid" -DRULES=1 $few -DNC=1 -DF=1
	check register NOW fail $quick "$small" -DRULES=1 $few -DM=NOW
	check register NOWREAD fail $quick "$small" -DRULES=1 $few -DSLOW -DM=NOWREAD

	# The register went back.
	back="-DBACK -DKNOW=1"
	check register "back, restarts" pass "" "$mid" $back -DCR=2
	check register "back, three loaders" pass $quick "$small" $back -DNL=3 -DNT=1 -DN=3 -DK=1 -DR=4 -DH=2
	check register "back, AGAIN" pass $quick "$small" $back -DM=AGAIN
	check register "back, database" pass "" "$mid" $back -DNC=1 -DF=1 $row
	check register "back, two databases" pass "" "$mid" $back -DNC=2 -DF=1 -DCR=1 -DNL=2 -DNT=1 -DN=3 -DK=1 -DR=4 -DH=2
	check register "back, database did not" pass $quick "$small" -DBACK -DRULES=0 -DNC=1 $row -DF=0
	check register RULES=0 fail $quick "$small" $back -DRULES=0
	check register "RULES=0, row back" fail $quick "$small" $back -DRULES=0 -DNC=1 -DF=1 $row
	for m in SEEN LAST POLL; do check register $m fail $quick "$small" $back -DM=$m; done
	for m in START FILE; do check register $m fail $quick "$small" $back -DCR=1 -DM=$m; done
	for o in 1 2; do check register OVER=$o fail $quick "$small" $back -DOVER=$o; done
	check register "seen its own grants only" fail $quick "$small" -DBACK -DKNOW=0

	# One loader, which has seen its own grants; then two.
	alone="-DBACK -DNL=1 -DNT=2 -DN=3 -DK=2 -DR=4 -DH=2"
	check register "alone" pass $quick "$small" $alone -DKNOW=0
	check register "alone, noted before grants" pass "" "$mid" $alone -DKNOW=0 -DCR=2 -DEACH
	check register "alone, noted later" fail $quick "$small" $alone -DKNOW=0 -DCR=1
	check register "two, noted before grants" fail $quick "$small" -DBACK -DKNOW=0 -DCR=1 -DEACH

	# The restore was short.
	brief="-DBACK -DBRIEF -DNL=2 -DNT=1 -DN=4 -DK=1 -DR=5 -DH=3"
	check register "short, one loader" pass $quick "$small" $alone -DBRIEF -DKNOW=2
	check register "short, two loaders" pass $quick "$small" $brief -DKNOW=3
	check register "short, seen too little" fail $quick "$small" $brief -DKNOW=2
	for m in ACK BLUNT; do check register $m fail $quick "$small" $alone -DBRIEF -DKNOW=2 -DM=$m; done
	check register "short, own cache" pass $quick "$small" $alone -DBRIEF -DOWN
	check register READ fail $quick "$small" $alone -DBRIEF -DOWN -DM=READ

	# An administrator decided.
	raise="-DBACK -DNL=1 -DNT=2 -DN=4 -DK=1 -DR=5 -DH=2"
	two="-DBACK -DKNOW=1 -DRAISE=2 -DNL=2 -DNT=1 -DN=5 -DK=1 -DR=6 -DH=2"
	check register "raised, two loaders" pass "" "$mid" $two
	check register "raised, restarts" pass "" "$mid" $raise -DKNOW=1 -DRAISE=2 -DCR=1 -DDEC=0
	check register "raised, database" pass "" "$mid" $raise -DKNOW=1 -DRAISE=2 -DNC=1 -DF=1
	check register "raised, slow reads" pass "" "$mid" $raise -DKNOW=1 -DRAISE=2 -DSLOW
	check register "raised, AGAIN" pass $quick "$small" $raise -DKNOW=1 -DRAISE=2 -DM=AGAIN
	for m in OPEN FLOOR REACH; do check register $m fail $quick "$small" $raise -DKNOW=1 -DRAISE=2 -DM=$m; done
	check register "FLOOR, database" fail $quick "$small" $raise -DKNOW=1 -DRAISE=2 -DNC=1 -DF=1 -DM=FLOOR
	check register KEEP fail $quick "$small" $two -DM=KEEP
	check register "raised too little" fail $quick "$small" $raise -DKNOW=1 -DRAISE=1
	check register "raised too little, alone" pass "" "$mid" $raise -DOWN -DRAISE=1
	check register COMPARE fail $quick "$small" $raise -DOWN -DRAISE=1 -DM=COMPARE
	high="-DBACK -DNL=1 -DNT=2 -DN=9 -DK=1 -DR=6 -DH=2 -DKNOW=1 -DRAISE=2 -DTARGET=2 -DBEGIN=3"
	check register "raised, a tag above" pass $quick "$small" $high
	check register ABOVE fail $quick "$small" $high -DM=ABOVE
	twice="-DBACK -DNL=1 -DNT=1 -DN=9 -DK=1 -DR=7 -DH=2 -DKNOW=1 -DRAISE=2 -DTARGET=3"
	check register "the same copy twice" pass "" "$mid" $twice -DTWICE=1 -DCR=1
	for m in CONFIG SAME PERMIT; do check register $m fail $quick "$small" $twice -DTWICE=1 -DCR=1 -DM=$m; done
	check register "put back during a raise" pass $quick "$small" $twice -DTWICE=2
	check register LOOK fail $quick "$small" $twice -DTWICE=2 -DM=LOOK
	check register FLIGHT fail $quick "$small" $raise -DKNOW=1 -DRAISE=2 -DSLOW -DM=FLIGHT
	check register HIGH fail $quick "$small" $raise -DKNOW=1 -DRAISE=2 -DM=HIGH
	check register "raised after a short restore" pass "" "$mid" $two -DBRIEF -DKNOW=2
	check register WAIT fail $quick "$small" $two -DBRIEF -DKNOW=2 -DM=WAIT
	check register "older decision" pass "" "$mid" $back -DCR=1 -DDEC=0
	check register LATEST fail $quick "$small" $back -DCR=1 -DDEC=0 -DM=LATEST
	check register FORGET fail $quick "$small" $back -DCR=1 -DM=FORGET

	# The register was deleted, and a backup put back.
	lost="-DBACK -DLOST=1 -DOVER=2 -DRAISE=2 -DTARGET=2 -DK=1 -DH=2"
	check register "lost, two loaders" pass "" "$mid" $lost -DNL=2 -DNT=1 -DN=4 -DR=5
	check register "lost, two tags" pass $quick "$small" $lost -DNL=1 -DNT=2 -DN=4 -DR=7
	check register "lost, a tag above" pass $quick "$small" $lost -DNL=1 -DNT=2 -DN=12 -DR=8 -DBEGIN=3
	check register "lost, database" pass $quick "$small" $lost -DNC=1 -DF=1 -DNL=1 -DNT=1 -DN=5 -DR=6
	check register "lost, stopped, restored again" pass "" "$mid" $lost -DADMINS=2 -DCR=1 -DNL=1 -DNT=1 -DN=8 -DR=5
	for m in PLAIN SOON AFTER REACH; do check register "lost, $m" fail $quick "$small" $lost -DNL=1 -DNT=1 -DN=5 -DR=6 -DM=$m; done
	late="-DBACK -DLOST=1 -DOVER=2 -DRAISE=2 -DTARGET=3 -DK=1 -DH=3 -DNL=1 -DNT=1 -DN=6 -DR=7"
	check register "lost, late updates" pass $quick "$small" $late
	check register LOW fail $quick "$small" $late -DM=LOW
	list="-DBACK -DLOST=2 -DKNOW=1 -DRAISE=2 -DTARGET=2 -DK=1 -DH=2 -DNL=1 -DNT=2 -DN=4 -DR=6"
	check register "went back, a newer list" pass $quick "$small" $list
	check register BEFORE fail $quick "$small" $list -DM=BEFORE
}

# After a decision, nothing from before it is issued.
line() {
	old="-DOLD -DNW=1 -DNL=2 -DB=1 -DD=1"
	twice="-DNW=1 -DNL=1 -DB=1 -DD=2"
	check line "one decision" pass "" "$mid" -DHTTP
	check line "one decision, two numbers" pass $quick "$small" -DNW=1 -DNL=1 -DB=2 -DD=1 -DHTTP
	check line "two decisions" pass $quick "$small" $twice -DHTTP
	check line "back over a decision" pass $quick "$small" $twice -DCOPY -DHTTP
	for m in KEEP LATE STAMP FIRST REPLY; do check line $m fail $quick "$small" -DAFTER -DM=$m; done
	for m in NOGATE STALE OLDREAD SHOWN NOKEY NOASK EARLY; do check line $m fail $quick "$small" -DM=$m; done
	for m in DOWN SAME; do check line $m fail $quick "$small" $twice -DM=$m; done
	check line WAIT pass "" "$mid" -DM=WAIT
	check line REACH fail $quick "$small" -DM=REACH

	# What the key is for, and what grants are for.
	check line KEYS fail $quick "$small" -DM=KEYS
	check line "KEYS, after a success" pass "" "$mid" -DM=KEYS -DAFTER
	check line GRANTS fail $quick "$small" -DM=GRANTS
	check line "GRANTS, nobody leaves" pass $quick "$small" -DM=GRANTS -DSTAY

	# A loader of version 0.2.0.
	check line "0.2.0" pass $quick "$small" $old -DHTTP
	check line "0.2.0, two decisions" pass "" "$mid" -DOLD -DNW=1 -DNL=2 -DB=1 -DD=2 -DHTTP
	for m in BARE OLDNUM JOIN; do check line $m fail $quick "$small" $old -DAFTER -DM=$m; done
	check line "0.2.0, back over a decision" fail $quick "$small" -DOLD -DNW=1 -DNL=2 -DB=1 -DD=2 -DCOPY
	check line "… after a success" pass "" "$mid" -DOLD -DNW=1 -DNL=2 -DB=1 -DD=2 -DCOPY -DAFTER
}

# The register went back, and something that is left remembers.
evidence() {
	one="-DNL=1 -DNT=1 -DNW=1 -DR=3"
	two="-DNL=2 -DNT=1 -DNW=1 -DR=3"
	tags="-DNL=2 -DNT=2 -DNW=1 -DR=3"
	late="-DNL=1 -DNT=2 -DNW=2 -DR=3 -DCUT"
	check evidence "two tags" pass "" "$mid" $tags
	check evidence "two workers" pass "" "$mid" -DNL=2 -DNT=1 -DNW=2 -DR=3 -DCR=0
	check evidence "witness" pass "" "$mid" $two -DNOTE
	check evidence "a decision, cut off" pass "" "$mid" $two -DD=1 -DCUTS
	check evidence "slow polls" pass "" "$mid" -DNL=2 -DNT=1 -DNW=1 -DR=2 -DCR=0 -DSLOW
	check evidence "a liar" pass "" "$mid" $one -DLIAR -DD=1 -DNOTE
	check evidence "a liar, two loaders" pass "" "$mid" -DNL=2 -DNT=1 -DNW=1 -DR=2 -DLIAR
	check evidence "nobody answers" pass $quick "$small" $late
	check evidence BURN pass "" "$mid" $tags -DM=BURN
	for m in EARLY IDLE FORGET SOON CACHE; do check evidence $m fail $quick "$small" $two -DM=$m; done
	for m in SEQ NEWEST EVER REACH; do check evidence $m fail $quick "$small" $two -DD=1 -DM=$m; done
	check evidence KEEPS fail $quick "$small" $tags -DM=KEEPS
	check evidence RETURN fail $quick "$small" $two -DCUTS -DM=RETURN
	check evidence ONCE fail "" "$mid" $two -DD=1 -DCUTS -DM=ONCE
	check evidence STALE fail $quick "$small" $two -DSLOW -DM=STALE
	check evidence FILE fail $quick "$small" $two -DNOTE -DM=FILE
	check evidence NEXT fail $quick "$small" $late -DM=NEXT
	check evidence SEEN fail $quick "$small" $one -DLIAR -DM=SEEN
	check evidence NOTED fail $quick "$small" $one -DLIAR -DNOTE -DM=NOTED
	check evidence IGNORE fail $quick "$small" $one -DLIAR -DD=1 -DM=IGNORE
	check evidence "others write" fail $quick "$small" $two -DCREATE=2
}

others() {
	register
	line
	evidence

	check lease "no copy" pass "" "$mid" -DNOCOPY -DSTRICT
	check lease "a copy" pass "" "$mid"
	check lease "a copy, resumed later" pass "" "$mid" -DLATER
	check lease M_LAST fail "" "$mid" -DNOCOPY -DSTRICT -DM_LAST
	for m in HOLD PRNG UNKNOWN EARLY LO BLIND REVOKE; do check lease M_$m fail "" "$mid" -DM_$m; done
	check lease STRICT fail "" "$mid" -DSTRICT
	check lease "restored" pass "" "$mid" -DBACK -DSTRICT
	for m in NOASK FORGET HI; do check lease M_$m fail "" "$mid" -DBACK -DSTRICT -DM_$m; done
	right="-DBACK -DCLOCK -DSTRICT -DH=4 -DNUM=3"
	check lease "restored, right clocks" pass "" "$mid" $right
	for m in BEFORE SAME; do check lease M_$m fail $quick "$small" $right -DM_$m; done
	cut="-DBACK -DCLOCK -DSTRICT -DCUT -DH=5"
	check lease "restored, after an objection" pass "" "$mid" $cut
	check lease M_LOWER fail "" "$mid" $cut -DM_LOWER
	check lease ALONE fail $quick "$small" $cut -DALONE
	lost="-DLOST -DSTRICT -DH=5 -DNUM=3"
	check lease "lost, long fences" pass $quick "$small" $lost
	check lease "lost, short fences" pass $quick "$small" $lost -DL=1
	check lease M_SHORT fail $quick "$small" $lost -DWAIT=1
	check lease M_FLOOR fail $quick "$small" $lost -DM_FLOOR

	check enrich "fast batches" pass "" "$mid"
	check enrich "atomic batches" pass "" "$mid" -DATOMIC
	check enrich "fast, plans dropped" pass "" "$mid" -DFLIP
	check enrich "atomic, plans dropped" pass "" "$mid" -DATOMIC -DFLIP
	check enrich "consumed target" pass "" "$mid" -DCONS -DFLIP
	check enrich "foreign messages" pass "" "$mid" -DFOREIGN=1
	check enrich M_NODOUBT fail "" "$mid" -DFLIP -DM_NODOUBT
	check enrich M_ALONE fail "" "$mid" -DM_ALONE
	check enrich M_KEEPON fail "" "$mid" -DFOREIGN=1 -DM_KEEPON

	check source "times ascend" pass "" "$mid"
	check source "equal times" pass "" "$mid" -DTIE
	for m in CREATED CREATED2 MARKER BEYOND; do check source M_$m fail "" "$mid" -DM_$m; done
	check source "clock set back" fail "" "$mid" -DBACK=1
}

strict() {
	few="-DNW=2 -DNL=1 -DNR=3 -DN=6 -DFORGETS=1"
	pair="-DNW=2 -DNL=2 -DNR=3 -DN=6 -DFORGETS=1"
	check strict "two workers" pass "" "$mid"
	check strict "three workers" pass "" "$mid" -DNW=3 -DNL=2 -DNR=3 -DN=6 -DFORGETS=1
	check strict "two open loads" pass "" "$mid" -DFLY=2 $few
	check strict "either order" pass "" "$mid" -DLEARN $pair
	for m in AFTER KEEP EARLIER NUMBERS GROW UPDATE RETRY; do check strict $m fail $quick "$small" $few -DM=$m; done
	for m in PREFETCH JOIN; do check strict $m fail $quick "$small" $pair -DM=$m; done
	check strict ANY fail $quick "$small" -DFLY=2 $few -DM=ANY
	for m in GUESS RULES REBORN; do check strict $m fail $quick "$small" -DLEARN $few -DM=$m; done
}

# in_folder runs checks in a folder of their own. A background job gets no Ctrl-C.
in_folder() (
	trap 'kill ${pan:-}; exit 1' TERM
	mkdir "$work/$1"
	cd "$work/$1"
	"$1"
)
began=$(date +%s)
in_folder strict &
strict=$!
in_folder others &
others=$!
give_up() {
	kill $strict $others 2> "$work/tool.log" || true # one may be done
	exit 1
}
trap give_up INT TERM
wait $others || give_up
wait $strict
echo "all $(wc -l < "$work/done") as expected, in $(($(date +%s) - began)) s"
