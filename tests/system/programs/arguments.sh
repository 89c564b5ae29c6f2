#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# arguments.sh PROGRAM: --help is answered with status 0, bad arguments with a message on stderr and status 2.
set -u
program=$1
errors=0

expect() { # expect STATUS ARGS...
  wanted=$1
  shift
  message=$("$program" "$@" 2>&1 > /dev/null)
  status=$?
  if [ "$status" -ne "$wanted" ] || { [ "$wanted" -eq 2 ] && [ -z "$message" ]; }; then
    echo "FAILED: $program $*: status $status, not $wanted; on stderr: '$message'"
    errors=1
  fi
}

expect 0 --help
"$program" --help | grep -q '^usage: ' || { echo "FAILED: no usage"; errors=1; }
expect 2 --no-such-option
expect 2 1 2 3
expect 2 --serial=yes
case $program in
  */psort) expect 2; expect 2 -o; expect 1 /nonexistent/file --serial; expect 1 / --serial ;;
  */uts) expect 2 T9; expect 2 4 ;;
  *) for size in x 1x -1 0x10 99999999999999999999 1e9 ''; do expect 2 "$size"; done ;;
esac
case $program in
  */heat) expect 2 10 --steps; expect 2 10 --steps many; expect 2 10 --steps=-1 ;;
  */nbody) expect 2 1; expect 2 --theta 2; expect 2 --theta nan; expect 1 100 --serial --png /nonexistent/x.png ;;
esac
exit $errors
