# SPDX-License-Identifier: Apache-2.0
# A million threads that wait need 4,800 bytes each, page tables and all; ten million forks without a join end in EAGAIN, at
# once, where stacks run out, ten million detached ones in no memory; depth is bounded by stacks alone. 5 GB of memory.
. "$(dirname "$0")/lib.sh"
need $bin/ayatori $bin/parked_threads $bin/many $bin/uts
[ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -ge 6 ] || missing "less than 6 GiB of memory"
log=build/full/many-threads.log
: >$log

# job N W COMMAND...
job() {
  n=$1 w=$2
  shift 2
  timeout 1200 $bin/ayatori run -n "$n" -w "$w" -- "$@" >>$log 2>&1 || {
    tail -n 20 $log
    failed "$* with $n x $w: $log"
  }
}

export AYATORI_STACK_SIZE=64K
for way in barrier semaphore mutex join; do
  for nw in '1 1' '1 2' '2 1'; do
    # shellcheck disable=SC2086
    job $nw $bin/parked_threads 1000000 $way 4800
  done
done
job 1 1 $bin/parked_threads 1000000 condition 4800
# shellcheck disable=SC2086
for nw in '1 1' '1 2' '2 1' '3 2'; do
  job $nw $bin/many detached 10000000
  job $nw $bin/many placed 480000
  export AYATORI_SPACE_SIZE=2G
  job $nw $bin/many unjoined 10000000 16000
  job $nw $bin/many parked 10000000 16000
  job $nw $bin/many moved 10000000 16000
  unset AYATORI_SPACE_SIZE
done
unset AYATORI_STACK_SIZE
for nw in '1 1' '1 2' '3 2'; do
  # shellcheck disable=SC2086
  job $nw $bin/many chain 100000
done
for n in 1 2 3 4 5 6 7 8; do job $n 1 $bin/uts T3; done
shown "13 runs of a million waiting threads within 4,800 bytes each; no stack left, detached, chains, UTS T3: $log"
