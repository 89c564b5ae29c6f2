#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh AYATORI PROGRAM ENGINE CASE: runs one case of limits.cpp and looks at its status and lines.
set -u
ayatori=$1 program=$2 engine=$3 case=$4
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# expect STATUS SPACE N W ARGUMENTS...
expect() {
  want=$1 space=$2 n=$3 w=$4
  shift 4
  AYATORI_SPACE_SIZE=$space "$ayatori" run -n "$n" -w "$w" --engine "$engine" -- "$program" "$@" >"$log" 2>&1
  status=$?
  [ $status = "$want" ] && return
  cat "$log"
  echo "FAILED: status $status, not $want: AYATORI_SPACE_SIZE=$space $ayatori run -n $n -w $w --engine $engine --" \
    "$program $*"
  exit 1
}
lines() {
  [ "$(grep -c "$2" "$log")" = "$1" ] && return
  cat "$log"
  echo "FAILED: not $1 lines '$2'"
  exit 1
}
case $case in
few_stacks) expect 0 256M 5 2 few_stacks && expect 0 256M 2 4 few_stacks ;;
nested_stacks) expect 0 256M 5 2 nested_stacks ;;
exhausted) expect 0 256M 3 2 exhausted && expect 0 256M 1 1 exhausted ;;
end)
  # Detached threads that go on for ever end with the job; main goes on in every process.
  for loop in yield fork detach sleep; do
    expect 3 1G 3 2 end $loop
    lines 3 'after run'
    lines 3 'static destructor'
  done
  ;;
sleep) expect 0 1G 2 2 sleep ;;
wild)
  expect 139 1G 2 1 wild
  lines 0 'stack overflow'
  expect 5 1G 2 1 wild handled
  expect 134 1G 2 1 overflow
  lines 1 'stack overflow'
  ;;
unallocated) expect 0 1G 2 1 unallocated ;;
*) exit 2 ;;
esac
