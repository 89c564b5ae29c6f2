# SPDX-License-Identifier: Apache-2.0
# 31 kinds of thread programs over shm, tcp, ucx and shm+tcp x 1..4 processes x 1..4 workers x both fault engines, every pair
# of these covered: 300 runs, and 50 each under AddressSanitizer with UndefinedBehaviorSanitizer and, in one process, under
# ThreadSanitizer: no hang, no wrong result, no report, nothing left behind.
# Usage: 18-thread-soak.sh [release] [asan] [tsan]     only these builds
. "$(dirname "$0")/lib.sh"
need tests/soak/threads/run.sh
said=
for preset in ${*:-release asan tsan}; do
  runs=50
  [ "$preset" != release ] || runs=300
  [ "$preset" = release ] || build "$preset" --target ayatori_launcher soak_threads soak_plan || failed "the $preset build failed"
  log=build/full/thread-soak-$preset.log
  tests/soak/threads/run.sh "build/$preset" $runs >"$log" || {
    cat "$log"
    failed "the soak of threads failed ($preset)"
  }
  grep -v ' runs, ' "$log"
  said="$said${said:+; }$preset: $(tail -n 1 "$log")"
done
shown "$said"
