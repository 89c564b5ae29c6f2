#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `ayatori run --check` names addresses of thread_locals that threads keep while they go on elsewhere, and nothing else.
# Usage: thread_locals.sh BIN PROGRAM WORK N W
bin=$1 program=$2 work=$3/thread_locals.$4x$5 n=$4 w=$5
rm -rf "$work" && mkdir -p "$work" || exit 2
fail() {
  echo "FAILED: $*"
  cat "$work/err"
  exit 1
}
named() { grep -q "^ayatori: check: $1" "$work/err" || fail "not named: $1"; }
silent() { grep -q "$1" "$work/err" && fail "named though right: $1"; return 0; }
check() {
  "$bin/ayatori" run --check -n "$n" -w "$w" "$program" "$@" >"$work/out" 2>"$work/err"
  [ $? = 3 ] || fail "the exit status is not the program's: $*"
}
check
named "thread_local 'kept_table': its address was kept in (anonymous namespace)::keeps_in_a_register() while the thread"
named "thread_local '(anonymous namespace)::kept_in_a_frame': its address was kept in (anonymous namespace)::keeps_in_its_frame()"
[ "$n" = 1 ] || [ "$w" != 1 ] || named ".* on another worker or process"
silent "'read_anew'"
silent "'kept_at_home'"
silent "'ayatori::"
[ "$(grep -c thread_local "$work/err")" = 2 ] || fail "something else is named"
check --clean
silent thread_local
"$bin/ayatori" run -n "$n" -w "$w" "$program" >"$work/out" 2>"$work/err"
[ $? = 3 ] && [ ! -s "$work/err" ] || fail "a line without --check"
echo ok
