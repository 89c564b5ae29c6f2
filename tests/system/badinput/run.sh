#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh AYATORI BAD WHAT STATUS LINES [PATTERN...]: runs `bad WHAT` over 3 processes within 20 s. Right are: the status, that
# standard error has exactly LINES lines of the runtime beside backtraces, that each PATTERN is found in the output, and that nothing is left.
set -u
ayatori=$1 bad=$2 what=$3 want=$4 lines=$5
shift 5
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
ulimit -c 0
AYATORI_TEST_BAD=$$-$(date +%s)
export AYATORI_TEST_BAD
timeout 20 "$ayatori" run -n 3 -w 1 -- "$bad" "$what" >"$log" 2>&1 </dev/null
status=$?
cat "$log"
fail() {
  echo "FAILED: $*: $ayatori run -n 3 -w 1 -- $bad $what"
  exit 1
}
[ $status = "$want" ] || fail "status $status, not $want"
told=$(grep '^ayatori' "$log" | grep -Evc '^ayatori\[[0-9.]*\]:     ') # no calls of a backtrace
[ "$told" = "$lines" ] || fail "$told lines of the runtime, not $lines"
for pattern in "$@"; do grep -Eq -- "$pattern" "$log" || fail "no line like '$pattern'"; done
sleep 0.1
left=$(grep -lszx "AYATORI_TEST_BAD=$AYATORI_TEST_BAD" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
  pid=${file#/proc/}
  pid=${pid%/environ}
  case $(readlink "/proc/$pid/exe" 2>/dev/null) in "$bad") echo "$pid" ;; esac
done)
[ -z "$left" ] || fail "processes are left: $left"
