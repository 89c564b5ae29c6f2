#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD RUNS [FIRST_SEED]: RUNS short runs of the soak program, seeds FIRST_SEED (1) and on, over 3..8 processes x
# 1, 2 workers x both fault engines. Exit status 0: all right. A run fails by its status, by a wrong value, by not ending
# within 60 s (then the places where its threads wait are printed) or by leaving a process or a name in shared memory.
# Each failure prints the command that repeats it; after 5 failures the rest is not run.
set -u
[ $# -ge 2 ] || {
  echo "usage: $0 BUILD RUNS [FIRST_SEED]" >&2
  exit 2
}
bin=$1/bin runs=$2 seed=${3:-1}
ayatori=$bin/ayatori mixed=$bin/soak_mixed
for program in "$ayatori" "$mixed"; do
  [ -x "$program" ] || {
    echo "$program is not built" >&2
    exit 2
  }
done
. "$(dirname "$0")/lib.sh"

done=0 began=$(date +%s)
while [ $done -lt "$runs" ] && [ $failures -lt 5 ]; do
  n=$((3 + seed % 6)) w=$((1 + seed / 6 % 2))
  engine=uffd
  [ $((seed / 12 % 2)) = 0 ] || engine=mprotect
  scenes=$((6 + seed % 30))
  command="$ayatori run -n $n -w $w --engine $engine -- $mixed $seed $scenes"
  run_job "$command"
  [ -z "$why" ] || report "$command"
  done=$((done + 1)) seed=$((seed + 1))
done
names_left
echo "$done runs, $failures failures, $(($(date +%s) - began)) s"
[ $failures = 0 ]
