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
limit_s=${AYT_SOAK_LIMIT_S:-60}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# Processes that run the soak program of this script's job: found by a variable in their environment.
AYATORI_TEST_SOAK=$$-$(date +%s)
export AYATORI_TEST_SOAK
members() {
  for file in $(grep -lszx "AYATORI_TEST_SOAK=$AYATORI_TEST_SOAK" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    pid=${pid%/environ}
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in
      */ayatori | */soak_mixed) echo "$pid" ;;
    esac
  done
}
names() { ls /dev/shm 2>/dev/null | sort; }

where_they_wait() {
  echo "-- where its threads wait:"
  kill -QUIT "$1" 2>/dev/null && sleep 1
  if command -v gdb >/dev/null; then
    for pid in $(members); do
      echo "-- process $pid"
      timeout 30 gdb -p "$pid" -batch -ex 'thread apply all backtrace 12' 2>/dev/null | grep -E '^(Thread|#)'
    done
  fi
}

failures=0 done=0 began=$(date +%s)
names >"$work/names.before"
while [ $done -lt "$runs" ] && [ $failures -lt 5 ]; do
  n=$((3 + seed % 6)) w=$((1 + seed / 6 % 2))
  engine=uffd
  [ $((seed / 12 % 2)) = 0 ] || engine=mprotect
  scenes=$((6 + seed % 30))
  command="$ayatori run -n $n -w $w --engine $engine -- $mixed $seed $scenes"
  $command >"$work/out" 2>&1 </dev/null &
  pid=$! ticks=0
  while kill -0 $pid 2>/dev/null && [ $ticks -lt $((limit_s * 20)) ]; do
    sleep 0.05
    ticks=$((ticks + 1))
  done
  why=
  if kill -0 $pid 2>/dev/null; then
    why="does not end within $limit_s s"
    where_they_wait $pid >>"$work/out" 2>&1
    kill -KILL $pid 2>/dev/null
  fi
  wait $pid 2>/dev/null
  status=$?
  [ -n "$why" ] || [ $status = 0 ] || why="status $status"
  [ -n "$why" ] || [ "$(tail -n 1 "$work/out")" = "check: ok" ] || why="the last line is not 'check: ok'"
  left=$(members)
  if [ -n "$left" ]; then
    sleep 1
    left=$(members)
    # shellcheck disable=SC2086
    [ -z "$left" ] || {
      why="${why:+$why; }processes are left: $(echo $left)"
      kill -KILL $left 2>/dev/null
    }
  fi
  if [ -n "$why" ]; then
    failures=$((failures + 1))
    echo "FAILED: $command"
    echo "        $why"
    tail -n 200 "$work/out"
  fi
  done=$((done + 1)) seed=$((seed + 1))
done
names >"$work/names.after"
cmp -s "$work/names.before" "$work/names.after" || {
  added=$(comm -13 "$work/names.before" "$work/names.after" | grep -i ayatori)
  [ -z "$added" ] || {
    echo "FAILED: left in /dev/shm: $added"
    failures=$((failures + 1))
  }
}
echo "$done runs, $failures failures, $(($(date +%s) - began)) s"
[ $failures = 0 ]
