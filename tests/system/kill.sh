#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill.sh BUILD ROUNDS [FIRST_SEED]: kill -9 of a random member, or of the launcher, at a random moment of a job. Right is:
# all other processes of the job are gone within 2 s; exactly one line tells who was killed; when a member was, the
# launcher's status is 137; nothing is left in /dev/shm, /tmp or the process table. Exit status 0: all rounds right.
set -u
[ $# -ge 2 ] || {
  echo "usage: $0 BUILD ROUNDS [FIRST_SEED]" >&2
  exit 2
}
bin=$1/bin rounds=$2 seed=${3:-1}
ayatori=$bin/ayatori program=$bin/soak_mixed
for file in "$ayatori" "$program"; do
  [ -x "$file" ] || {
    echo "$file is not built" >&2
    exit 2
  }
done
ulimit -c 0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
AYATORI_TEST_KILL=$$-$(date +%s)
export AYATORI_TEST_KILL

processes() { # of the job: launcher, its guard and members, none that is already a zombie
  for file in $(grep -lszx "AYATORI_TEST_KILL=$AYATORI_TEST_KILL" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    pid=${pid%/environ}
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in
      */ayatori | */soak_mixed) echo "$pid" ;;
    esac
  done
}
members() { # not the guard, which is an image of the launcher
  processes | grep -vx $launcher | while read -r pid; do
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in */soak_mixed) echo "$pid" ;; esac
  done
}
random() { # random LIMIT: 0 .. LIMIT-1, from the seed
  state=$(((state * 1103515245 + 12345) % 2147483648))
  value=$((state / 65536 % $1))
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }
names() { ls /dev/shm /tmp 2>/dev/null | grep -i ayatori | sort; }

names >"$work/before"
round=0 bad=0 killed_members=0 killed_launchers=0 too_late=0
complain() {
  echo "FAILED: seed $seed: $*"
  sed 's/^/        /' "$work/out"
  bad=$((bad + 1))
}
while [ $round -lt "$rounds" ] && [ $bad -lt 5 ]; do
  round=$((round + 1)) seed=$((seed + 1)) state=$seed
  random 4
  n=$((2 + value))
  random 2
  w=$((1 + value))
  # Long enough that the job is still running when it is hit, whatever the moment.
  "$ayatori" run -n $n -w $w -- "$program" $seed 100000 >"$work/out" 2>&1 </dev/null &
  launcher=$!
  random 300
  sleep "0.$(printf %03d "$value")"
  random 4
  victim=$launcher what=launcher
  born=$(processes | grep -vxc $launcher)
  if [ "$value" != 0 ]; then
    members=$(members)
    count=$(echo "$members" | grep -c .)
    if [ "$count" -gt 0 ]; then
      random "$count"
      victim=$(echo "$members" | sed -n "$((value + 1))p") what=member
    fi
  fi
  kill -KILL "$victim" 2>/dev/null || too_late=$((too_late + 1))
  began=$(now_ms)
  left=$(processes)
  while [ -n "$left" ] && [ $(($(now_ms) - began)) -lt 2000 ]; do
    sleep 0.02
    left=$(processes)
  done
  [ -z "$left" ] || {
    complain "2 s after a kill of the $what $victim these are left: $(echo "$left" | tr '\n' ' ')"
    # shellcheck disable=SC2086
    kill -KILL $left 2>/dev/null
  }
  wait $launcher 2>/dev/null
  status=$?
  lines=$(grep -c '^ayatori' "$work/out")
  if [ $what = launcher ]; then
    killed_launchers=$((killed_launchers + 1))
    # Killed before its first fork, it had no job yet and nobody to tell of it.
    [ "$lines" = 1 ] || { [ "$lines$born" = 00 ]; } ||
      complain "$lines lines of the runtime after a kill of the launcher"
    [ "$lines" = 0 ] || grep -q "^ayatori: the launcher (pid $launcher) was killed; the job is ended\$" "$work/out" ||
      complain "the line does not tell of a kill of the launcher"
  else
    killed_members=$((killed_members + 1))
    [ $status = 137 ] || complain "the status is $status after a kill of member $victim"
    [ "$lines" = 1 ] && grep -q "pid $victim.*signal 9" "$work/out" ||
      complain "$lines lines of the runtime after a kill of member $victim"
  fi
done
names >"$work/after"
cmp -s "$work/before" "$work/after" || {
  echo "FAILED: names are left: $(comm -13 "$work/before" "$work/after" | tr '\n' ' ')"
  bad=$((bad + 1))
}
echo "$killed_members members and $killed_launchers launchers killed ($too_late too late), $bad failures"
[ $bad = 0 ]
