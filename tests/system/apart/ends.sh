#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ends.sh AYATORI PROGRAM: members of a job over tcp come late, end early, or need the others after main (ends.cpp).
set -u
ayatori=$1 program=$2
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
bad=0
# expect STATUS CASE
expect() {
  case=$2
  timeout -k 5 60 "$ayatori" run -n 3 -w 1 --transport tcp -- "$program" "$case" >"$log" 2>&1 </dev/null
  status=$?
  [ $status = "$1" ] || wrong "status $status, not $1"
}
lines() { [ "$(grep -cE -- "$2" "$log")" = "$1" ] || wrong "not $1 lines '$2'"; }
wrong() {
  echo "WRONG: $case: $*"
  cat "$log"
  bad=1
}
expect 0 many && lines 1 '^sum 60300$' && lines 3 'leaves main' && lines 0 '^ayatori'
expect 0 late && lines 1 '^sum 60300$' && lines 3 'leaves main' && lines 0 '^ayatori'
expect 4 early && lines 1 '^ayatori' && lines 1 'process 1 .*exited .*without calling ayatori::run'
expect 0 quick && lines 2 'leaves main' && lines 0 '^ayatori'
expect 134 killed-after && lines 1 'process 1 .*signal 6'
expect 0 statics && lines 3 'leaves main' && lines 1 'process 1 reads 7 at its exit' && lines 0 '^ayatori'
expect 134 unlock && lines 1 'unlocked an ayatori::mutex that is not locked'
exit $bad
