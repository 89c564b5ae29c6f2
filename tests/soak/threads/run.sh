#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD RUNS [SEED [FROM [TO]]]: the soak of threads, runs FROM (1) to TO (RUNS) of the plan of RUNS runs that SEED (1)
# gives: kinds of thread programs (README.md) x transports x 1..4 processes x 1..4 workers x fault engines, all pairs of
# these covered as far as RUNS goes. Under ThreadSanitizer: one process. UCX is left out where no job starts over it.
#
# Exit status 0: all right. A run fails by its status, by any output but `check: ok` (a wrong value, a sanitizer's report),
# by not ending within AYT_SOAK_LIMIT_S (120) seconds (then the places where its threads wait are printed) or by leaving a
# process or a name in shared memory. Each failure prints the command that repeats it; after AYT_SOAK_FAILURES (5) the rest is
# not run. AYT_SOAK_SIZE: percent of the usual size. AYT_SOAK_KINDS: only these kinds. AYT_SOAK_LOG: a file that gets one line
# a run: its milliseconds and its command.
set -u
[ $# -ge 2 ] || {
  echo "usage: $0 BUILD RUNS [SEED [FROM [TO]]]" >&2
  exit 2
}
bin=$1/bin runs=$2 seed=${3:-1} from=${4:-1} to=${5:-$2}
ayatori=$bin/ayatori threads=$bin/soak_threads plan=$bin/soak_plan
for program in "$ayatori" "$threads" "$plan"; do
  [ -x "$program" ] || {
    echo "$program is not built" >&2
    exit 2
  }
done
AYT_SOAK_LIMIT_S=${AYT_SOAK_LIMIT_S:-120}
. "$(dirname "$0")/../lib.sh"

export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
: "${UCX_NET_DEVICES:=lo}"
export UCX_NET_DEVICES
options=
for kind in ${AYT_SOAK_KINDS:-}; do options="$options --only $kind"; done
"$threads" --list >"$work/kinds" || exit 2
make_plan() {
  # shellcheck disable=SC2086
  "$plan" "$runs" "$seed" $options <"$work/kinds" >"$work/plan" 2>"$work/covered" || {
    cat "$work/covered"
    exit 2
  }
}
make_plan
if grep -q " ucx " "$work/plan"; then
  run_job "$ayatori run -n 2 --transport ucx -- $threads fib 1 1"
  [ -z "$why" ] || {
    echo "no job starts over UCX here: it is left out"
    options="$options --without ucx"
    make_plan
  }
fi

now_ms() { date +%s%3N; }
line=0 done=0 began=$(date +%s)
while read -r kind kind_seed size transport n w engine; do
  line=$((line + 1))
  [ $line -ge "$from" ] || continue
  [ $line -le "$to" ] && [ $failures -lt "${AYT_SOAK_FAILURES:-5}" ] || break
  command="$ayatori run -n $n -w $w --transport $transport --engine $engine -- $threads $kind $kind_seed $size"
  run_began=$(now_ms)
  run_job "$command"
  [ -n "$why" ] || [ "$(cat "$work/out")" = "check: ok" ] || why="it printed more than 'check: ok'"
  [ -z "${AYT_SOAK_LOG:-}" ] || echo "$(($(now_ms) - run_began)) $command ${why:+# $why}" >>"$AYT_SOAK_LOG"
  [ -z "$why" ] || report "$command"
  done=$((done + 1))
done <"$work/plan"
names_left
cat "$work/covered"
echo "$done runs, $failures failures, $(($(date +%s) - began)) s"
[ $failures = 0 ]
