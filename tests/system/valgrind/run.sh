#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh quiet WORKERS PROGRAM ARGS...: under Valgrind the program ends well, says `check: ok`, and nothing is reported.
# run.sh finds WHAT FUNCTION PROGRAM ARGS...: Valgrind reports WHAT in FUNCTION, called by the thread's own function, and nothing else.
set -u
mode=$1
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.vg"' EXIT
fail() {
  cat "$log" "$log.vg"
  echo "FAILED: $*"
  exit 1
}
if [ "$mode" = quiet ]; then
  AYATORI_WORKERS=$2
  export AYATORI_WORKERS
  shift 2
else
  what=$2 function=$3
  shift 3
fi
valgrind --log-file="$log.vg" --error-exitcode=9 --fair-sched=try -- "$@" >"$log" 2>&1 </dev/null
status=$?
grep -q '^check: ok$' "$log" || fail "the program does not say that it is well (status $status): $*"
grep -q 'client switching stacks' "$log.vg" && fail "a switch of stacks is taken for something else: $*"
if [ "$mode" = quiet ]; then
  [ $status = 0 ] || fail "status $status: $*"
  grep -q 'ERROR SUMMARY: 0 errors' "$log.vg" || fail "reports: $*"
else
  [ $status = 9 ] || fail "nothing is reported, status $status: $*"
  grep -q 'ERROR SUMMARY: 1 errors from 1 contexts' "$log.vg" || fail "not one report: $*"
  grep -q "$what" "$log.vg" || fail "no '$what': $*"
  grep -A3 "$what" "$log.vg" | grep -q "$function" || fail "not in $function: $*"
fi
echo ok
