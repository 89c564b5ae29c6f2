#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh AYATORI PROGRAM ENGINE N W [CASE...]: one run of the suite of ordinary C++. Right are: status 0, a last line
# `check: ok`, and each thread's lines in its order.
set -u
ayatori=$1 program=$2 engine=$3 n=$4 w=$5
shift 5
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
if [ "$n" = 0 ]; then
  "$program" "$@" >"$log" 2>&1
else
  "$ayatori" run -n "$n" -w "$w" --engine "$engine" -- "$program" "$@" >"$log" 2>&1
fi
status=$?
grep -v '^line ' "$log"
[ $status = 0 ] || {
  echo "FAILED: status $status: $ayatori run -n $n -w $w --engine $engine -- $program $*"
  exit 1
}
[ "$(tail -n 1 "$log")" = "check: ok" ] || {
  echo "FAILED: the last line is not 'check: ok'"
  exit 1
}
grep '^line ' "$log" | awk '$2 != NR - 1 { print "FAILED: line " NR - 1 " of a thread is: " $0; bad = 1; exit }
  END { exit bad || (NR != 0 && NR != 100) }'
