# SPDX-License-Identifier: Apache-2.0
# Over tcp, over UCX and over tcp with shared memory between neighbours, with 2, 4 and 8 processes: every program is right, its
# counters prove that threads moved; the litmus tests pass; 100 soak runs each. UCX is asked for on the loopback interface.
# Usage: 14-without-shared-memory.sh [tcp] [ucx] [shm+tcp] [shm+ucx]     only these transports
. "$(dirname "$0")/lib.sh"
need $bin/ayatori tests/soak/run.sh
work=build/release/tests/system/programs
run_tests build/release build/full/inputs.log -R '^programs\.inputs$'
[ -s $work/numbers.txt ] || failed "the inputs of the programs could not be made: build/full/inputs.log"
runs=0 litmus=0 soaks=0
for transport in ${*:-tcp ucx shm+tcp}; do
  export AYATORI_TRANSPORT="$transport"
  $bin/ayatori run -n 2 $bin/fib 5 >build/full/transport.out 2>&1 || {
    cat build/full/transport.out
    missing "no job starts over $transport here"
  }
  for n in 2 4 8; do
    while read -r program arguments; do
      # shellcheck disable=SC2086
      timeout 600 sh tests/system/programs/run.sh $bin $work auto $n 1 $program $arguments \
        </dev/null >build/full/transport.out 2>&1 || {
        cat build/full/transport.out
        failed "$program over $transport with $n processes"
      }
      runs=$((runs + 1))
    done <<END
fib 36
nqueens 12
uts T1
cilksort 2000000
matmul 768
heat 512
nbody 4096 --verify
locals 50
psort $work/numbers.txt -o @OUT@
END
  done
  run_tests build/release build/full/litmus-$transport.log -L '^litmus$' -E '^(shm[+])?tcp\.'
  [ "$tests_failed" = 0 ] || failed "$tests_failed litmus tests over $transport: build/full/litmus-$transport.log"
  litmus=$((litmus + tests_passed))
  tests/soak/run.sh build/release 100 || failed "the soak over $transport"
  soaks=$((soaks + 100))
done
shown "over ${*:-tcp ucx shm+tcp}: $runs runs of programs right, $litmus litmus tests and $soaks soak runs passed"
