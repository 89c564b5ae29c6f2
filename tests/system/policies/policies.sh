#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# policies.sh BIN programs|apart|delayed: programs are right, and threads are stolen and joined across processes, whatever idle
# workers do and wherever joiners go on. apart: over tcp, where AYATORI_JOIN_POLICY changes nothing. delayed: over shared
# memory with fetches that take their time, so that threads are suspended in faults and go on on any worker.
set -u
bin=$1 what=$2
. "$(dirname "$0")/../../../scripts/lib.sh"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
bad=0
# run PROCESSES WORKERS PROGRAM...
run() {
  processes=$1 workers=$2
  shift 2
  AYATORI_JOIN_POLICY=$join AYATORI_STEAL_BACKOFF=$backoff timeout 100 "$bin/ayatori" run -n "$processes" -w "$workers" \
    $options --stats="$scratch/stats.json" -- "$@" >"$scratch/out" 2>&1 && grep -q '^check: ok$' "$scratch/out" && return
  echo "WRONG: AYATORI_JOIN_POLICY=$join AYATORI_STEAL_BACKOFF=$backoff run -n $processes -w $workers $options $*"
  cat "$scratch/out"
  bad=1
}
steals=0 joins=0
crossed() {
  steals=$((steals + $(stat_total "$scratch/stats.json" steals_remote)))
  joins=$((joins + $(stat_total "$scratch/stats.json" joins_remote)))
}
options=
[ "$what" = apart ] && options='--transport tcp'
if [ "$what" = delayed ]; then
  join=stay backoff=sleep
  AYATORI_NET_DELAY=3000
  export AYATORI_NET_DELAY
  for options in '--engine auto' '--engine mprotect'; do
    for shape in '1 1' '1 2' '2 1' '3 2'; do
      # shellcheck disable=SC2086  # two words
      {
        run $shape "$bin/cilksort" 300000 && crossed
        run $shape "$bin/heat" 128 && crossed
        run $shape "$bin/nbody" 1024 --verify && crossed
      }
      case $shape in 1*) continue ;; esac
      faults=$(stat_total "$scratch/stats.json" blocks_fetched)
      [ "$faults" -gt 0 ] || { echo "WRONG: nothing was fetched ($shape)" && bad=1; }
    done
  done
else
  for join in stay move; do
    for backoff in sleep none fixed random; do
      run 1 1 "$bin/fib" 24
      run 1 2 "$bin/nqueens" 9
      run 2 1 "$bin/fib" 34 && crossed
      run 3 2 "$bin/cilksort" 200000 && crossed
      [ "$what" = apart ] || { run 2 1 "$bin/uts" T1 && crossed; }
    done
  done
fi
echo "$steals threads were stolen by other processes, $joins joins crossed processes"
{ [ "$steals" -gt 0 ] && [ "$joins" -gt 0 ]; } || bad=1
exit $bad
