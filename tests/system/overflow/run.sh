#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh AYATORI PROGRAM N W ENGINE SHAPE WHERE WANT [PATTERN...]: runs `PROGRAM SHAPE WHERE` over N processes of W workers.
# WANT: "told" (status 134, the one line of the job's end names thread, stack and knob, the backtrace has the functions), "bare" (the
# same with addresses, as nobody can allocate), "fine" (status 0 and nothing is said). Then nothing is left of the job.
set -u
ayatori=$1 program=$2 n=$3 w=$4 engine=$5 shape=$6 where=$7 want=$8
shift 8
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
ulimit -c 0
AYATORI_TEST_OVERFLOW=$$-$(date +%s)
export AYATORI_TEST_OVERFLOW
size=${AYATORI_STACK_SIZE:-1024K}
AYATORI_STACK_SIZE=$size timeout 60 "$ayatori" run -n "$n" -w "$w" --engine "$engine" -- "$program" "$shape" "$where" \
  >"$log" 2>&1 </dev/null
status=$?
fail() {
  cat "$log"
  echo "FAILED: $*: AYATORI_STACK_SIZE=$size $ayatori run -n $n -w $w --engine $engine -- $program $shape $where"
  exit 1
}
lines() { # COUNT PATTERN
  [ "$(grep -Ec -- "$2" "$log")" = "$1" ] || fail "not $1 lines '$2'"
}
if [ "$want" = fine ]; then
  [ $status = 0 ] || fail "status $status"
  lines 0 .
else
  [ $status = 134 ] || fail "status $status"
  kib=${size%K}
  # In the launcher's line; the number is the same as in the backtrace.
  lines 1 "stack overflow"
  lines 1 "^ayatori: process [0-9]+ .*stack overflow in thread [0-9]+ \(worker [0-9]+\): $kib KiB stack(, left by [0-9]+ KiB)?; give it more with AYATORI_STACK_SIZE=[0-9]+[KM]; the job is ended$"
  lines 1 '^ayatori\[[0-9.]+\]: thread [0-9]+ has overflowed its stack in:$'
  number=$(sed -n 's/.*stack overflow in thread \([0-9]*\) .*/\1/p' "$log")
  grep -q "thread $number has overflowed" "$log" || fail "two threads are named"
  # Nothing else but calls.
  grep -Ev '^ayatori: process |has overflowed its stack in:$|^ayatori\[[0-9.]+\]:     (#[0-9]+ |\.\.\. [0-9]+ calls \.\.\.$)' "$log" |
    grep -q . && fail "more than one message"
  if [ "$want" = bare ]; then
    grep -Eq '#0 program\+0x[0-9a-f]+$' "$log" || fail "no addresses"
    grep -q recurse "$log" && fail "names of functions, which nobody could look up"
  else
    grep -q '#.*overflow(' "$log" || fail "no function that the thread came from"
  fi
  for pattern in "$@"; do grep -Eq -- "$pattern" "$log" || fail "no line like '$pattern'"; done
fi
sleep 0.1
left=$(grep -lszx "AYATORI_TEST_OVERFLOW=$AYATORI_TEST_OVERFLOW" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
  pid=${file#/proc/}
  pid=${pid%/environ}
  case $(readlink "/proc/$pid/exe" 2>/dev/null) in "$program") echo "$pid" ;; esac
done)
[ -z "$left" ] || fail "processes are left: $left"
echo ok
