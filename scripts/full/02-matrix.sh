# SPDX-License-Identifier: Apache-2.0
# Every program gives the right result with 1, 2, 4, 8 processes x 1, 2 workers x both fault engines, and with 2 processes
# and more the counters prove remote steals (listing 3.1: joins and fetches), faults and joins; the same under AddressSanitizer
# and UndefinedBehaviorSanitizer, under ThreadSanitizer with one process.
# Usage: 02-matrix.sh [release] [asan] [tsan]     only these builds
. "$(dirname "$0")/lib.sh"
stats=build/full/matrix.json
text=build/full/matrix.txt
awk 'BEGIN { srand(7); for (i = 0; i < 400000; i++) printf "%06x %d %s\n", rand() * 16777216, i % 1000, rand() }' >$text
# Sizes for which --serial takes 0.3 s or more in the release build; the sanitizer builds run the small ones.
release_lines="fib 40
nqueens 13
uts T1
cilksort 8000000
matmul 1024
heat 2048
psort $text
nbody 20000
locals 1000"
small_lines="fib 31
nqueens 12
uts T1
cilksort 1000000
matmul 768
heat 256
psort $text
nbody 2000
locals 20"
runs=0 bad=0
# one BUILD ENGINE PROCESSES WORKERS COUNTERS PROGRAM ARGS...
one() {
  folder=build/$1/bin engine=$2 processes=$3 workers=$4 counters=$5 program=$6
  shift 6
  need "$folder/ayatori" "$folder/$program"
  runs=$((runs + 1))
  what="$folder/ayatori run -n $processes -w $workers --engine $engine --stats=$stats $folder/$program $*"
  rm -f $stats
  # shellcheck disable=SC2086
  if ! timeout 600 $what </dev/null >build/full/matrix.out 2>&1 || ! grep -qx 'check: ok' build/full/matrix.out; then
    echo "FAILED: $what"
    tail -n 15 build/full/matrix.out
    bad=$((bad + 1))
    return
  fi
  [ "$processes" -ge 2 ] || return
  for counter in $counters; do
    # a sum of counters, joined by +
    sum=0
    for part in $(echo "$counter" | tr + ' '); do sum=$((sum + $(stat_total $stats "$part"))); done
    [ $sum -gt 0 ] && continue
    echo "FAILED: $counter is 0 after: $what"
    bad=$((bad + 1))
  done
}
sweep() { # sweep BUILD PROCESSES LINES
  for engine in uffd mprotect; do
    for processes in $2; do
      for workers in 1 2; do
        echo "$3" | while read -r program arguments; do
          counters="steals_remote joins_remote read_faults+write_faults blocks_fetched"
          # What these share lies on stacks, which come with a steal; a page of a stack that has gone is not fetched.
          case $program in
            fib | nqueens | uts) counters="steals_remote joins_remote read_faults+write_faults bytes_received" ;;
            locals) counters="joins_remote blocks_fetched" ;;
          esac
          # shellcheck disable=SC2086
          one "$1" $engine "$processes" $workers "$counters" "$program" $arguments
          echo "$runs $bad" >build/full/matrix.count
        done || exit $?
        read -r r b <build/full/matrix.count
        all=$((all + r)) all_bad=$((all_bad + b))
      done
    done
  done
}
all=0 all_bad=0
export UBSAN_OPTIONS=print_stacktrace=1
for preset in ${*:-release asan tsan}; do
  case $preset in
    release) sweep release '1 2 4 8' "$release_lines" ;;
    asan) build asan && sweep asan '1 2 4 8' "$small_lines" || failed "the asan build failed" ;;
    tsan) build tsan && sweep tsan 1 "$small_lines" || failed "the tsan build failed" ;;
    *) failed "no such build: $preset" ;;
  esac
done
[ $all_bad = 0 ] || failed "$all_bad findings in $all runs"
shown "$all runs right, counters as they must be"
